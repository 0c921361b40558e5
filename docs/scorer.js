// How the search orders its results: guides, then pages to look things up, then pages of results,
// which have the most words. The guide that is named like the query comes first. Sphinx calls
// score(); the other numbers are its defaults.
var LOOKED_UP = ["commands", "configuration", "api", "structure", "adding_a_method"];
var QUERY = (new URLSearchParams(location.search).get("q") || "").toLowerCase();
var Scorer = {
  score: ([page, title, anchor, descr, score, filename, kind]) =>
    score * (page === QUERY ? 10 : 1) /
    (page.startsWith("results") ? 10 : LOOKED_UP.includes(page) ? 3 : 1),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
