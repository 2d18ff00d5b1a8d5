"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const unfold = document.getElementById("unfold");

  const entries = all(".implementation").map((article) => ({
    article,
    row: document.querySelector(`tr[data-entry="${article.id}"]`),
    verdict: article.dataset.verdict,
    has: article.dataset.has.split(" "),
    search: article.dataset.search,
    stories: all(".story", article).map((story) => ({
      story,
      family: story.dataset.family,
      outcomes: story.dataset.outcomes.split(" "),
      search: all("summary, dd", story).map((part) => part.textContent).join(" ").toLowerCase(),
    })),
  }));

  function wanted() {
    const data = new FormData(form);
    return {
      words: data.get("text").toLowerCase().split(/\s+/).filter(Boolean),
      verdicts: data.getAll("verdict"),
      family: data.get("family"),
      outcome: data.get("outcome"),
    };
  }

  const holds = (text, words) => words.every((word) => text.includes(word));

  function hasOutcome(entry, { family, outcome }) {
    const asked = (token) => (!family || token.startsWith(family + ":")) && (!outcome || token.endsWith(":" + outcome));
    return (!family && !outcome) || entry.has.some(asked);
  }

  function applyTo(entry, want) {
    const named = holds(entry.search, want.words);
    let told = 0;
    for (const each of entry.stories) {
      const visible =
        (named || holds(entry.search + " " + each.search, want.words)) &&
        (!want.family || each.family === want.family) &&
        (!want.outcome || each.outcomes.includes(want.outcome));
      each.story.hidden = !visible;
      told += visible;
    }
    const visible = want.verdicts.includes(entry.verdict) && hasOutcome(entry, want) && (named || told > 0);
    entry.article.hidden = !visible;
    if (entry.row) entry.row.hidden = !visible;
    return visible ? [1, told] : [0, 0];
  }

  function apply() {
    const want = wanted();
    let [implementations, stories] = [0, 0];
    for (const entry of entries) {
      const [one, told] = applyTo(entry, want);
      implementations += one;
      stories += told;
    }
    for (const cell of all("table.matrix [data-family]")) {
      cell.hidden = Boolean(want.family) && cell.dataset.family !== want.family;
    }
    document.getElementById("nothing").hidden = implementations > 0;
    relabel();
    shown.textContent = `${implementations} of ${entries.length} implementations, ${stories} failing ${stories === 1 ? "rule" : "rules"}`;
  }

  function reveal() {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!place) return;
    for (let node = place; node; node = node.parentElement) if (node.matches("details")) node.open = true;
    place.scrollIntoView();
  }

  function addCopy(pre) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre);
        button.textContent = "Selected: press Ctrl+C";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    pre.before(button);
  }

  const folded = () => all(".story:not([hidden], [open])");

  function relabel() {
    unfold.textContent = folded().length ? "Unfold all" : "Fold all";
    unfold.hidden = !document.querySelector(".story:not([hidden])");
  }

  unfold.addEventListener("click", () => {
    const open = folded().length > 0;
    for (const story of all(".story:not([hidden])")) story.open = open;
    relabel();
  });
  form.addEventListener("input", apply);
  form.addEventListener("reset", () => setTimeout(apply));
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", reveal);
  document.addEventListener("toggle", relabel, true);
  all(".paste pre").forEach(addCopy);
  form.hidden = false;
  apply();
  reveal();
})();
