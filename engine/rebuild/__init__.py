"""Make new log dirs from damaged, cut or several ones."""
