// Starts the page.
Plotly.newPlot("try", [{ x: [1, 2, 3], y: [2, 6, 3], mode: "lines" }]);
