"""Rules, findings and the generated page of rules."""
