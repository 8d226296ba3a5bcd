"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const said = document.getElementById("said");
  let quiet;

  function say(text) {
    said.textContent = text;
    clearTimeout(quiet);
    quiet = setTimeout(() => { said.textContent = ""; }, 2500);
  }

  // Trials as tabs: arrow keys move, as the WAI-ARIA practice for tabs has it.
  const tabs = all("[role=tab]");
  function open(number) {
    tabs.forEach((tab, n) => {
      tab.setAttribute("aria-selected", String(n === number));
      tab.tabIndex = n === number ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = n !== number;
    });
  }
  tabs.forEach((tab, n) => {
    tab.addEventListener("click", () => open(n));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: n + 1, ArrowLeft: n - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = (to + tabs.length) % tabs.length;
      open(next);
      tabs[next].focus();
    });
  });
  if (tabs.length) open(Number(document.querySelector("[role=tablist]").dataset.open));

  // The video: one frame at a time.
  const player = document.querySelector("[data-player]");
  function show(frame) {
    if (!player) return;
    const last = Number(player.dataset.frames) - 1;
    const number = Math.max(0, Math.min(last, frame));
    player.querySelector("[data-frame]").setAttribute("href", `#${player.dataset.prefix}${number}`);
    player.querySelector("[data-number]").textContent = number;
    player.querySelector("[data-scrub]").value = number;
    const box = player.querySelector("[data-pointed]");
    if (box.dataset.frame !== String(number)) point(box, [0, 0, 0, 0]);
    all(".found, .truth, .under", player).forEach((one) => {
      one.style.visibility = number === answered ? "" : "hidden";
    });
  }
  const answered = player ? Number(player.querySelector("[data-scrub]").value) : 0;
  if (player) {
    player.querySelector("[data-scrub]").addEventListener("input", (event) => {
      show(Number(event.target.value));
    });
  }
  all("[data-frame-at]").forEach((one) => {
    one.addEventListener("click", () => {
      show(Number(one.dataset.frameAt));
      player?.scrollIntoView({ block: "nearest" });
    });
  });

  // A crop points at its place in the whole picture.
  function point(rect, [x0, y0, x1, y1]) {
    rect.setAttribute("x", x0);
    rect.setAttribute("y", y0);
    rect.setAttribute("width", Math.max(0, x1 - x0));
    rect.setAttribute("height", Math.max(0, y1 - y0));
  }
  all("[data-point]").forEach((one) => {
    one.addEventListener("click", () => {
      const name = one.dataset.point;
      const frame = name.startsWith("video0#") ? Number(name.split("#")[1]) : null;
      const rect = frame === null
        ? all("[data-pointed]").find((other) => other.dataset.pointed === name)
        : player?.querySelector("[data-pointed]");
      if (!rect) return;
      if (frame !== null) {
        rect.dataset.frame = String(frame);
        show(frame);
      }
      point(rect, one.dataset.box.split(" ").map(Number));
      rect.closest("svg").scrollIntoView({ block: "nearest" });
    });
  });

  // Copying; pages opened from disk may lack the clipboard, so the old way stays as a second.
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }
  all("[data-copy]").forEach((one) => {
    one.addEventListener("click", async () => {
      const done = await copy(document.getElementById(one.dataset.copy).textContent);
      say(done ? "copied" : "could not copy; select the text");
    });
  });

  // A link into folded text unfolds it.
  function unfold() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  }
  addEventListener("hashchange", unfold);
  unfold();
})();
