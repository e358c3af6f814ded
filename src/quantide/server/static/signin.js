// Sign-in form: shown when the server requires a token, hidden when one is accepted.

let waiting = null;

// Resolves when there is a session. Concurrent requests wait for the same form.
export function signIn() {
  waiting ??= new Promise((done) => {
    const dialog = document.getElementById("signin");
    const form = dialog.querySelector("form");
    const field = dialog.querySelector("input");
    const wrong = dialog.querySelector(".error");
    const close = (event) => event.preventDefault(); // there is nothing to see behind it
    const submit = async (event) => {
      event.preventDefault();
      wrong.textContent = "";
      const reason = await begin(field.value.trim());
      if (reason) {
        wrong.textContent = reason;
        field.select();
        return;
      }
      field.value = "";
      form.removeEventListener("submit", submit);
      dialog.removeEventListener("cancel", close);
      dialog.close();
      waiting = null;
      done();
    };
    form.addEventListener("submit", submit);
    dialog.addEventListener("cancel", close);
    dialog.showModal();
  });
  return waiting;
}

// What went wrong, or nothing.
async function begin(token) {
  try {
    const response = await fetch("/api/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token }),
    });
    if (response.ok) return "";
    return (await response.json()).error.message;
  } catch {
    return "The server does not answer. Try again.";
  }
}
