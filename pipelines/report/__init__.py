"""Reports: tables, figures and pages from the numbers of a sweep; model output in them is inert."""
