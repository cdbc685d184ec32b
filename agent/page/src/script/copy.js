// Adds a button to each command that copies it.

/** @param {ParentNode} root */
function makeCopyable(root) {
  for (const command of root.querySelectorAll("pre.command")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", () => {
      const text = document.createRange();
      text.selectNodeContents(command);
      const selection = getSelection();
      selection?.removeAllRanges();
      selection?.addRange(text);
      // Some browsers give files no access to the clipboard: then the text is at least selected.
      navigator.clipboard?.writeText(command.textContent ?? "").then(() => (button.textContent = "copied"), () => {});
    });
    command.after(button);
  }
}
