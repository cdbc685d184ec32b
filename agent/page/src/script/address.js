// The reader's choices are in the address, so that a link or a reload restores them:
// #sort.functions=3d&filter.functions=Send&range=12..48&theme=dark

function addressed() {
  const text = location.hash.slice(1);
  return new URLSearchParams(text.includes("=") ? text : "");
}

/** @param {string} key @param {string} value */
function keepInAddress(key, value) {
  const state = addressed();
  value === "" ? state.delete(key) : state.set(key, value);
  history.replaceState(null, "", "#" + state);
}
