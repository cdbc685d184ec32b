// Everything is there without scripts; they add sorting, filtering, copying and, of a live page, its news.

/** @param {ParentNode} root */
function enhance(root) {
  makeTables(root);
  makeCopyable(root);
}

enhance(document);
const connection = document.getElementById("connection");
if (connection) {
  // The token is in a cookie now.
  if (location.search !== "") history.replaceState(null, "", location.pathname + location.hash);
  follow(connection);
}
