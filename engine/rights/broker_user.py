"""The user that a broker runs as, and what the modes and access lists of files let that user do."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable
from enum import IntFlag
from struct import Struct
from typing import NamedTuple

from engine.errors import SourceError

ACCESS_LIST = "system.posix_acl_access"
_ENTRY = Struct("<HHI")
"""An entry of an access list: tag, rights, id (see linux/posix_acl_xattr.h); a version of four bytes is before the first."""
_USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 0x02, 0x04, 0x08, 0x10, 0x20


class Right(IntFlag):
    """Rights as the bits of a mode have them; EXECUTE of a folder lets a user reach what is in it."""

    READ = 4
    WRITE = 2
    EXECUTE = 1

    @property
    def words(self) -> str:
        """The rights in words, such as «read or write»."""
        return " or ".join(word for right, word in _WORDS.items() if right & self)


NO_RIGHT = Right(0)
_WORDS = {Right.READ: "read", Right.WRITE: "write", Right.EXECUTE: "enter"}


class BrokerUser(NamedTuple):
    """The user of a broker.

    Attributes:
        name: its name, or its number where this machine does not know it.
        uid: its number; 0 may do all.
        groups: numbers of its groups.
    """

    name: str
    uid: int
    groups: frozenset[int]

    @property
    def may_do_all(self) -> bool:
        """Whether no mode holds the user up."""
        return self.uid == 0

    def missing(
        self, status: os.stat_result, wanted: Right, access_list: Callable[[], bytes]
    ) -> Right:
        """Return which of the wanted rights the user lacks, by the rules of acl(5).

        Args:
            status: of the file or folder.
            wanted: the rights.
            access_list: returns the file's `system.posix_acl_access`, empty without one.
        """
        if self.may_do_all:
            return NO_RIGHT
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid == self.uid:
            return wanted & ~Right(mode >> 6 & 7)
        listed = access_list() if mode & stat.S_IRWXG else b""  # as Linux: its mask is these bits
        if listed:
            return self._missing_in(listed, status, wanted)
        shift = 3 if status.st_gid in self.groups else 0
        return wanted & ~Right(mode >> shift & 7)

    def _missing_in(self, listed: bytes, status: os.stat_result, wanted: Right) -> Right:
        entries = list(_ENTRY.iter_unpack(listed[4 : 4 + (len(listed) - 4) // 8 * 8]))
        mask = next((Right(rights & 7) for tag, rights, _ in entries if tag == _MASK), Right(7))
        for tag, rights, number in entries:
            if tag == _USER and number == self.uid:
                return wanted & ~(Right(rights & 7) & mask)
        of_groups = [
            Right(rights & 7)
            for tag, rights, number in entries
            if (tag == _GROUP_OBJ and status.st_gid in self.groups)
            or (tag == _GROUP and number in self.groups)
        ]
        if of_groups:  # one of them must have all that is wanted
            return min((wanted & ~(rights & mask) for rights in of_groups), key=int)
        other = next((Right(rights & 7) for tag, rights, _ in entries if tag == _OTHER), NO_RIGHT)
        return wanted & ~other


def owner_of(status: os.stat_result) -> BrokerUser:
    """Return the owner of a log dir as the user of its broker.

    Where this machine does not know the owner, its groups are that of the log dir.
    """
    try:
        known = pwd.getpwuid(status.st_uid)
    except KeyError:
        return BrokerUser(str(status.st_uid), status.st_uid, frozenset({status.st_gid}))
    return _known(known)


def user_named(name: str) -> BrokerUser:
    """Return a user of this machine, by name or number. Raises SourceError."""
    try:
        return _known(pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name))
    except (KeyError, OverflowError):
        if name.isdecimal() and int(name) < 1 << 32:
            return BrokerUser(name, int(name), frozenset())
        raise SourceError(
            f"this machine has no user {name}", hint="give the number of the user: id -u, there"
        ) from None


def _known(known: pwd.struct_passwd) -> BrokerUser:
    groups = os.getgrouplist(known.pw_name, known.pw_gid)
    return BrokerUser(known.pw_name, known.pw_uid, frozenset(groups))


def owner_text(status: os.stat_result) -> str:
    """Return owner, group and mode of a file as `ls -l` shows them."""
    return (
        f"{_user_name(status.st_uid)}:{_group_name(status.st_gid)}, {stat.filemode(status.st_mode)}"
    )


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
