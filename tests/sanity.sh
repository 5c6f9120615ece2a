#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Build the collection as Galaxy would get it, and run on this artifact what Galaxy and ansible-test ask of one: all
# sanity tests, and the lint of changelog and documentation. The last line counts the sanity tests that passed.
# The tools and tests of the clone are no part of the artifact; they have ruff, yamllint, ansible-lint and shellcheck.
#
# sanity.sh                        all sanity tests
# sanity.sh import yamllint ...    some of them
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
export PATH="$root/.venv/bin:$PATH"
unset ANSIBLE_CONFIG # it names the clone; everything below is about the copy

work="$(mktemp -d "${TMPDIR:-/tmp}/llmfleet-sanity.XXXXXX")"
trap 'rm -rf -- "$work"' EXIT
fail() {
    echo "sanity: $*" >&2
    exit 1
}

echo "== the artifact"
# What git would carry, and nothing that it ignores. A file that is deleted but not yet committed is left out.
mkdir "$work/source"
git -C "$root" ls-files -z --cached --others --exclude-standard --deduplicate |
    (cd "$root" && while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done) |
    tar -C "$root" --null --files-from=- -c | tar -C "$work/source" -x
# Decoys, so that a missing line of build_ignore shows even on a fresh clone.
for decoy in .venv/lib/decoy.py .cache/decoy .ansible/decoy .pytest_cache/decoy .ruff_cache/decoy .hypothesis/decoy \
    tests/output/decoy plugins/modules/__pycache__/decoy.pyc old.tar.gz; do
    install -D /dev/null "$work/source/$decoy"
done
ansible-galaxy collection build --output-path "$work" "$work/source" >/dev/null
artifact="$(echo "$work"/llmfleet-sglang-*.tar.gz)"
tar -tzf "$artifact" >"$work/members"
if grep -E '(^|/)(\.[^/]*|__pycache__|decoy[^/]*|tests|molecule)(/|$)|\.pyc$|\.tar\.gz$' "$work/members" >&2; then
    fail "the artifact holds what belongs to a clone; add it to build_ignore in galaxy.yml"
fi
for wanted in MANIFEST.json README.md LICENSE meta/runtime.yml playbooks/site.yml roles/serve/tasks/main.yml \
    docs/verdict.md inventories/example/hosts.yml; do
    grep -qxF "$wanted" "$work/members" || fail "the artifact has no $wanted"
done
echo "$(wc -l <"$work/members") files, $(($(stat -c %s "$artifact") / 1024)) KiB"
tree="$work/ansible_collections/llmfleet/sglang"
mkdir -p "$tree"
tar -C "$tree" -xzf "$artifact"
# ansible-test lists files with git, and reads from galaxy.yml what the artifact has in another form.
cp "$work/source/galaxy.yml" "$tree"
git -C "$tree" init --quiet
git -C "$tree" add --all

# Modules run on targets with Python 3.9 (RHEL 9). Where that interpreter is at hand, they are imported there as well.
# A command may exist without working, as a shim of pyenv does: it is asked for the interpreter itself.
old_version="$(pyenv whence python3.9 2>/dev/null | tail -n 1 || true)"
old_python="$(PYENV_VERSION="$old_version" python3.9 -c 'import ensurepip, sys; print(sys.executable)' 2>/dev/null || true)"

# ansible-test keeps its environments below HOME: one of our own, so that nothing of the user's is written,
# with the user's settings for pip, which ansible-test hands on through HOME only.
user_home="$HOME"
export HOME="$root/.cache/sanity-home"
mkdir -p "$HOME/.ansible/test/cache"
for name in .config .pip; do
    [ ! -e "$user_home/$name" ] || ln -sfn "$user_home/$name" "$HOME/$name"
done

# ansible-test downloads a script that puts pip into an empty environment, unless it finds one. Python itself can.
bootstrap="$work/get_pip.py"
cat >"$bootstrap" <<'PYTHON'
import subprocess
import sys

NOT_FOR_PIP = ("--no-setuptools", "--no-wheel")
subprocess.check_call([sys.executable, "-m", "ensurepip"], stdout=subprocess.DEVNULL)
arguments = [argument for argument in sys.argv[1:] if argument not in NOT_FOR_PIP]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", "--quiet"] + arguments))
PYTHON
controller="$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
pip_version="$(python -c '
import sys, types
from ansible_test._internal.python_requirements import get_venv_packages
print(get_venv_packages(types.SimpleNamespace(version=sys.argv[1]))["pip"])' "$controller")"
cp "$bootstrap" "$HOME/.ansible/test/cache/get_pip_${pip_version//./_}.py"

# A test without its program passes in silence. Debian and Ubuntu have it as a package.
"$root/tests/lab/debian_packages.sh" >/dev/null
command -v shellcheck >/dev/null || fail "install shellcheck, which one of the tests runs"

# From here on every part runs, so that one run shows all there is to mend.
failed=()

echo "== the shell scripts of the clone"
git -C "$root" ls-files -z --cached --others --exclude-standard --deduplicate -- '*.sh' .ci/run |
    (cd "$root" && xargs -0 shellcheck) || failed+=("shellcheck")

echo "== the changelog"
(cd "$tree" && antsibull-changelog lint) || failed+=("antsibull-changelog lint")

echo "== the documentation of plugins and roles"
(cd "$tree" && antsibull-docs lint-collection-docs --plugin-docs .) || failed+=("antsibull-docs lint-collection-docs")

echo "== the sanity tests"
log="$work/sanity.log"
pip_chatter='^(Looking in |Collecting |Using cached |Installing |Successfully |Processing |Requirement already |  |WARNING: Location |$)'
run_sanity() {
    (cd "$tree" && ansible-test sanity --color no "$@" 2>&1) | tee -a "$log" | grep -vE "$pip_chatter" ||
        failed+=("ansible-test sanity $*")
}
run_sanity --local --python "$controller" "${@/#/--test=}"
old_tests=()
for test in compile import; do
    [[ $# -gt 0 && " $* " != *" $test "* ]] || old_tests+=("--test=$test")
done
if [ -n "$old_python" ] && [ ${#old_tests[@]} -gt 0 ]; then
    mkdir "$work/bin"
    ln -s "$old_python" "$work/bin/python3.9"
    PATH="$work/bin:$PATH" run_sanity --controller "origin:python=$controller" --target-python 3.9 "${old_tests[@]}"
fi
! grep -E '^WARNING: (Skipping|Required program)' "$log" >&2 || failed+=("a sanity test was skipped")

[ ${#failed[@]} -eq 0 ] || {
    printf 'sanity: FAILED: %s\n' "${failed[@]}" >&2
    exit 1
}
echo "sanity: $(grep -c '^Running sanity test' "$log") tests passed"
