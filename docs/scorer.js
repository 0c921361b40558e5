// How the search orders its results: guides come before pages of results, whose words are many.
// Sphinx calls score(); the other numbers are its own defaults.
var Scorer = {
  score: ([page, title, anchor, descr, score, filename, kind]) =>
    page.startsWith("results") ? score / 10 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
