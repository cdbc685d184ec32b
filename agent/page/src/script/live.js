// The live page: replaces sections that changed. Numbers arrive formatted by the session.

/** Maximum pause before the next attempt to connect, in milliseconds. */
const PAUSE_MAX_MS = 30000;

/** Elements of a section that can have the focus. @param {Element} section */
function focusable(section) {
  return Array.from(/** @type {NodeListOf<HTMLElement>} */ (section.querySelectorAll("a, button, input, summary, [tabindex]")));
}

/** Replaces a section, and keeps focus and cursor. @param {Element} old @param {string} html */
function replaceSection(old, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const section = template.content.firstElementChild;
  if (!section) return;
  enhance(section);
  const active = document.activeElement;
  const place = active instanceof HTMLElement ? focusable(old).indexOf(active) : -1;
  const cursor = active instanceof HTMLInputElement ? active.selectionStart : null;
  old.replaceWith(section);
  const next = place < 0 ? undefined : focusable(section)[place];
  next?.focus({ preventScroll: true });
  if (next instanceof HTMLInputElement && cursor !== null) next.setSelectionRange(cursor, cursor);
}

/** Whether text of the section is selected: the reader may be about to copy it. @param {Element} section */
function isSelected(section) {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(section, true);
}

/** @param {number} unix_s */
function timeOfDay(unix_s) {
  return new Date(unix_s * 1000).toTimeString().slice(0, 8);
}

/** Offers the file that the last event contained. @param {string} html @param {Element} after */
function offerFile(html, after) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([html], { type: "text/html" }));
  link.download = "tuneagent.html";
  link.textContent = "save as one file";
  after.append(" ", link);
}

/** @param {HTMLElement} status shows the state of the connection */
function follow(status) {
  let since = status.dataset.since ?? "";
  let lastUnixS = Date.now() / 1000;
  let pauseMs = 500;
  let isPaused = false;
  /** New sections that wait while the reader uses the old ones. @type {Map<string, string>} */
  const waiting = new Map();

  /** @param {string} text @param {boolean} isStale */
  const say = (text, isStale) => {
    if (status.textContent !== text) status.textContent = text;
    document.body.classList.toggle("stale", isStale);
  };
  const replaceWaiting = () => {
    for (const [id, html] of isPaused ? [] : waiting) {
      const old = document.getElementById(id);
      if (old && !isSelected(old) && !old.querySelector(".held")) {
        replaceSection(old, html);
        waiting.delete(id);
      }
    }
  };
  const pause = document.createElement("button");
  pause.textContent = "pause";
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "go on" : "pause";
    replaceWaiting();
  });
  status.after(" ", pause);

  /** Whether another session has this address now: it has another token, and refuses ours. */
  const isOther = async () => {
    const answer = await fetch("/api/page", { method: "HEAD" }).catch(() => null);
    return answer?.status === 401;
  };
  const connect = () => {
    const events = new EventSource("/api/events?since=" + since);
    /** @param {MessageEvent} event */
    const take = (event) => {
      const news = JSON.parse(event.data);
      since = event.lastEventId;
      lastUnixS = news.unix_s;
      pauseMs = 500;
      for (const [id, html] of Object.entries(news.sections)) waiting.set(id, html);
      replaceWaiting();
      return news;
    };
    events.addEventListener("tick", (event) => {
      take(event);
      say("live", false);
    });
    events.addEventListener("mark", (event) => {
      since = event.lastEventId;
      const mark = JSON.parse(event.data).marks.at(-1);
      const newest = document.getElementById("newest");
      if (newest) newest.textContent = [mark.kind, mark.rule + ":", mark.text].join(" ");
    });
    events.addEventListener("end", (event) => {
      events.close();
      isPaused = false;
      const news = take(event);
      pause.remove();
      say("the session ended at " + timeOfDay(news.unix_s), false);
      if (news.file) offerFile(news.file, status);
    });
    events.addEventListener("error", async () => {
      events.close();
      say("connection lost; last values of " + timeOfDay(lastUnixS), true);
      if (await isOther()) {
        say("another session answers here now; last values of " + timeOfDay(lastUnixS), true);
        return;
      }
      setTimeout(connect, pauseMs);
      pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS);
    });
  };
  connect();
}
