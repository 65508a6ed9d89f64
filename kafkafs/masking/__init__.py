"""Masks: policies that drop, hash or replace fields of records before a command shows them."""
