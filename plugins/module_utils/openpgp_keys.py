# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell the keys of a file of OpenPGP public keys apart, without GnuPG, which a host need not have.

Pure functions on bytes. Only what takes a file apart is read: packet lengths and the version 4 fingerprint of
primary keys (RFC 4880). Nothing is verified here; apt and rpm do that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

PUBLIC_KEY = 6
ARMOUR = re.compile(rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL)


def dearmour(content):
    """Binary form of a file of keys, be it ASCII-armoured or binary already. Raises ValueError on broken armour."""
    blocks = ARMOUR.findall(content)
    if not blocks:
        return content
    result = b""
    for block in blocks:
        # Headers end with an empty line; the last line, "=" and four characters, is a checksum.
        _headers, _sep, body = (b"\n" + block.replace(b"\r", b"")).partition(b"\n\n")
        lines = [line.strip() for line in body.splitlines() if line.strip() and not line.startswith(b"=")]
        try:
            result += base64.b64decode(b"".join(lines), validate=True)
        except binascii.Error as error:
            raise ValueError(f"armoured key is damaged: {error}") from error
    return result


def split_keys(content):
    """Take binary keys apart: a list of (fingerprint in capital hexadecimal digits, bytes), in the file's order.

    A key is its primary key packet and all packets up to the next one. The fingerprint is "" for keys of other
    versions than 4. Raises ValueError when the bytes are no sequence of packets (a keybox, for example).
    """
    keys, position = [], 0
    while position < len(content):
        tag, start, end = _packet(content, position)
        if tag == PUBLIC_KEY:
            body = content[start:end]
            known = body[:1] == b"\x04"
            print_ = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper() if known else ""
            keys.append([print_, b""])
        if not keys:
            raise ValueError("the file does not start with a public key")
        keys[-1][1] += content[position:end]
        position = end
    return [tuple(key) for key in keys]


def without_keys(content, key_ids):
    """(bytes that are left, fingerprints that were taken out) for keys whose fingerprint ends with one of key_ids.

    An armoured file comes back in binary form when something was taken out; without a match it is left as it is.
    """
    endings = tuple(key_id.upper() for key_id in key_ids)
    keys = split_keys(dearmour(content))
    removed = [print_ for print_, _key in keys if endings and print_ and print_.endswith(endings)]
    if not removed:
        return content, []
    return b"".join(key for print_, key in keys if print_ not in removed), removed


def _packet(content, position):
    """(tag, start of the body, end of the body) of the packet at a position."""
    head = content[position]
    if not head & 0x80:
        raise ValueError(f"no OpenPGP packet at byte {position}")
    try:
        if head & 0x40:
            tag, first = head & 0x3F, content[position + 1]
            if first < 192:
                length, start = first, position + 2
            elif first < 224:
                length, start = ((first - 192) << 8) + content[position + 2] + 192, position + 3
            elif first == 255:
                length, start = int.from_bytes(content[position + 2 : position + 6], "big"), position + 6
            else:
                raise ValueError("packets of partial length are not keys")
        else:
            tag, kind = (head & 0x3C) >> 2, head & 0x03
            if kind == 3:
                raise ValueError("packets without a length are not keys")
            start = position + 1 + (1 << kind)
            length = int.from_bytes(content[position + 1 : start], "big")
    except IndexError as error:
        raise ValueError("the last packet is cut off") from error
    if start + length > len(content):
        raise ValueError("the last packet is cut off")
    return tag, start, start + length
