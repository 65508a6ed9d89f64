"""The report: one page of HTML with all that a source holds, what is wrong with it, and what to do."""
