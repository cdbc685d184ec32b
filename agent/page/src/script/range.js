// A range of the run, chosen by dragging over a chart or by two sliders. All charts share one time axis. The
// page defines the times that can be chosen, and their texts: `data-step`, `data-end`, `data-times`.

/** Minimum number of steps in a range. */
const STEPS_MIN = 4;

/** Maximum number of times below a chart. */
const TICKS_MAX = 8;

/** @param {number} part @returns {string} */
const percent = (part) => 100 * part + "%";

/** @param {HTMLElement} root the charts */
function makeRanged(root) {
  const texts = (root.dataset.times ?? "").split("|");
  const [step, end, last] = [Number(root.dataset.step), Number(root.dataset.end), texts.length - 1];
  if (last <= STEPS_MIN) return;
  const plots = /** @type {SVGSVGElement[]} */ (Array.from(root.querySelectorAll("svg.plot")));
  /** @param {number} place */
  const time = (place) => Math.min(Number((place * step).toPrecision(9)), end);
  /** @param {number} time_s */
  const nearest = (time_s) => (time_s >= end ? last : Math.min(Math.max(Math.round(time_s / step), 0), last));
  let [from, to] = [0, last];

  const bar = document.createElement("p");
  bar.className = "range";
  const shown = document.createElement("output");
  const reset = document.createElement("button");
  reset.textContent = "complete run";
  /** @param {string} name */
  const slider = (name) => {
    const input = document.createElement("input");
    Object.assign(input, { type: "range", min: "0", max: String(last) });
    const label = document.createElement("label");
    label.append(name, input);
    bar.append(label);
    return input;
  };
  const [first, second] = [slider("from"), slider("to")];
  bar.append(shown, reset);

  /** Writes round times of the range below the charts. */
  const showTicks = () => {
    const every = [1, 2, 5, 10, 20, 50, 100].find((every) => (to - from) / every <= TICKS_MAX) ?? 100;
    for (const plot of plots) {
      const old = Array.from(plot.querySelectorAll(".tick"));
      for (let place = Math.ceil(from / every) * every, number = 0; place <= to && place * step <= end; place += every) {
        const tick = /** @type {SVGSVGElement} */ (old[0].cloneNode(true));
        tick.classList.toggle("minor", number++ % 2 === 1);
        tick.dataset.at = String(time(place));
        if (tick.firstElementChild) tick.firstElementChild.textContent = texts[place];
        plot.append(tick);
      }
      old.forEach((tick) => tick.remove());
    }
  };
  const show = () => {
    const [start, length] = [time(from), time(to) - time(from)];
    const isComplete = from === 0 && to === last;
    document.body.classList.toggle("ranged", !isComplete);
    showTicks();
    for (const data of root.querySelectorAll("svg.data")) {
      const height = data.getAttribute("viewBox")?.split(" ")[3];
      data.setAttribute("viewBox", [start, 0, length, height].join(" "));
    }
    for (const placed of /** @type {NodeListOf<HTMLElement | SVGElement>} */ (root.querySelectorAll("[data-at]"))) {
      const part = (Number(placed.dataset.at) - start) / length;
      placed.classList.toggle("outside", part < 0 || part > 1);
      if (placed instanceof SVGElement) placed.setAttribute("x", percent(part));
    }
    [first, second].forEach((input, number) => {
      const place = number === 0 ? from : to;
      input.value = String(place);
      input.setAttribute("aria-valuetext", texts[place]);
    });
    shown.textContent = isComplete ? "the complete run" : texts[from] + " to " + texts[to];
    reset.hidden = isComplete;
  };
  /** @param {number} one @param {number} other */
  const choose = (one, other) => {
    [from, to] = [Math.max(one, 0), Math.min(other, last)];
    keepInAddress("range", from === 0 && to === last ? "" : time(from) + ".." + time(to));
    show();
  };
  first.addEventListener("input", () => choose(Math.min(Number(first.value), to - STEPS_MIN), to));
  second.addEventListener("input", () => choose(from, Math.max(Number(second.value), from + STEPS_MIN)));
  reset.addEventListener("click", () => {
    const hadFocus = document.activeElement === reset;
    choose(0, last);
    if (hadFocus) first.focus();
  });

  for (const plot of plots) makeDraggable(plot, plots, (one, other) => {
    const at = (/** @type {number} */ part) => nearest(time(from) + part * (time(to) - time(from)));
    if (at(other) - at(one) >= STEPS_MIN) choose(at(one), at(other));
  });
  root.addEventListener("dblclick", (event) => {
    if (event.target instanceof SVGElement) choose(0, last);
  });
  const kept = (addressed().get("range") ?? "").split("..").map(Number);
  const [one, other] = kept.length === 2 ? kept.map(nearest) : [0, last];
  root.prepend(bar);
  if (other > one) [from, to] = [one, other];
  show();
}

/** Calls `choose` after a drag, with its begin and end as parts of the plot's width.
 * @param {SVGSVGElement} plot @param {SVGSVGElement[]} all @param {(from: number, to: number) => void} choose */
function makeDraggable(plot, all, choose) {
  /** @param {PointerEvent} event */
  const part = (event) => {
    const box = plot.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  };
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    plot.setPointerCapture(event.pointerId);
    const start = part(event);
    const areas = all.map((plot) => {
      const area = /** @type {SVGElement} */ (plot.querySelector(".gap")?.cloneNode());
      area.setAttribute("class", "selected");
      plot.append(area);
      return area;
    });
    const over = new AbortController();
    /** @param {PointerEvent} event */
    const move = (event) => {
      const [from, to] = [start, part(event)].sort((a, b) => a - b);
      for (const area of areas) {
        area.setAttribute("x", percent(from));
        area.setAttribute("width", percent(to - from));
      }
      return [from, to];
    };
    /** @param {PointerEvent} event */
    const stop = (event) => {
      const [from, to] = move(event);
      areas.forEach((area) => area.remove());
      over.abort();
      if (event.type === "pointerup") choose(from, to);
    };
    plot.addEventListener("pointermove", move, over);
    plot.addEventListener("pointerup", stop, over);
    plot.addEventListener("pointercancel", stop, over);
  });
}
