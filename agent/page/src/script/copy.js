// A button beside each command copies it.

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
      // A file has no clipboard in some browsers; the text is selected then.
      navigator.clipboard?.writeText(command.textContent ?? "").then(() => (button.textContent = "copied"), () => {});
    });
    command.after(button);
  }
}
