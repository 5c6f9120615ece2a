# SPDX-License-Identifier: GPL-3.0-or-later
"""Send one chat completion to the server on this host and print what it says. Runs on a lab host."""

import json
import sys
import urllib.request

BASE = "http://127.0.0.1:30000"

with urllib.request.urlopen(f"{BASE}/v1/models", timeout=30) as answer:
    model = json.load(answer)["data"][0]["id"]
body = {"model": model, "messages": [{"role": "user", "content": sys.argv[1]}], "max_tokens": 32}
request = urllib.request.Request(
    f"{BASE}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
)
with urllib.request.urlopen(request, timeout=300) as answer:
    reply = json.load(answer)
message = reply["choices"][0]["message"]
print(f"LAB: {model} has random weights, so this is noise; it shows that the engine answers.")
text = message.get("content") or message.get("reasoning_content") or ""
print("".join(letter if letter.isprintable() else "." for letter in text))
print(json.dumps(reply["usage"]))
