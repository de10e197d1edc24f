"use strict";
(() => {
  const filter = document.getElementById("filter");
  const status = document.getElementById("status");
  const entries = [...document.querySelectorAll("[data-search]")];
  const kernels = entries.filter((entry) => entry.matches("details.kernel"));

  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const entry of entries) {
      entry.hidden = !words.every((word) => entry.dataset.search.includes(word));
    }
    const shown = kernels.filter((entry) => !entry.hidden).length;
    status.textContent = words.length ? `${shown} of ${kernels.length} kernels` : "";
  };

  const open = (wanted) => {
    for (const entry of document.querySelectorAll("details.entry")) {
      if (!entry.hidden) entry.open = wanted;
    }
  };

  // A link to what is folded opens it.
  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("details")) {
      target.hidden = false;
      target.open = true;
      target.scrollIntoView();
    }
  };

  filter.addEventListener("input", apply);
  document.getElementById("open").addEventListener("click", () => open(true));
  document.getElementById("close").addEventListener("click", () => open(false));
  window.addEventListener("hashchange", follow);
  document.querySelector(".tools").hidden = false;
  const asked = /^#filter=(.*)$/.exec(location.hash);
  if (asked) filter.value = decodeURIComponent(asked[1]);
  apply();
  follow();
})();
