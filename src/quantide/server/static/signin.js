// Sign-in form: shown when the server requires a token, hidden when one is accepted.

let pending = null;

// Resolves when there is a session. Concurrent requests wait for the same form.
export function signIn() {
  pending ??= new Promise((done) => {
    const dialog = document.getElementById("signin");
    const form = dialog.querySelector("form");
    const field = dialog.querySelector("input");
    const errorLine = dialog.querySelector(".error");
    const preventClose = (event) => event.preventDefault(); // the page behind the dialog is empty without a session
    const submit = async (event) => {
      event.preventDefault();
      errorLine.textContent = "";
      const reason = await createSession(field.value.trim());
      if (reason) {
        errorLine.textContent = reason;
        field.select();
        return;
      }
      field.value = "";
      form.removeEventListener("submit", submit);
      dialog.removeEventListener("cancel", preventClose);
      dialog.close();
      pending = null;
      done();
    };
    form.addEventListener("submit", submit);
    dialog.addEventListener("cancel", preventClose);
    dialog.showModal();
  });
  return pending;
}

// Send the token; return an error message, or "" if there is a session.
async function createSession(token) {
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
