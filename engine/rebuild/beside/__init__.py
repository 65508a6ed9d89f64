"""The files beside the records in a rebuilt log dir: copied only if a broker can read them, else made anew or left out."""
