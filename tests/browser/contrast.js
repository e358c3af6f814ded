// Every text that is seen with too little contrast to what is behind it, by the rule of WCAG 2 for level AA.
() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const paint = canvas.getContext("2d", { willReadFrequently: true });

  // A colour in whatever way it is written, laid on another.
  function laid(color, under) {
    paint.fillStyle = `rgb(${under})`;
    paint.fillRect(0, 0, 1, 1);
    paint.fillStyle = color;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  }

  function ground(element) {
    const above = element.parentElement ? ground(element.parentElement) : [255, 255, 255];
    return laid(getComputedStyle(element).backgroundColor, above);
  }

  function light(color) {
    const [r, g, b] = color.map((one) => {
      const part = one / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function ratio(one, other) {
    const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  }

  const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !element.closest(":disabled, .unseen, .skip");
  const found = [];
  let looked = 0;
  for (const element of document.body.querySelectorAll("*")) {
    if (!seen(element) || !own(element)) continue;
    looked += 1;
    const style = getComputedStyle(element);
    const behind = ground(element);
    const front = laid(element instanceof SVGElement ? style.fill : style.color, behind);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const is = ratio(front, behind);
    if (is < needed) found.push(`${is.toFixed(2)} ${element.tagName}.${element.getAttribute("class")} "${element.textContent.trim().slice(0, 40)}" ${front} on ${behind}`);
  }
  return { looked, found };
};
