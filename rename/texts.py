"""Texts that name files, modules, maps and tests."""
import os, re, subprocess
here = os.path.dirname(os.path.abspath(__file__))
files = [f for f in subprocess.check_output(['git', 'ls-files'], text=True).split('\n') if f and os.path.isfile(f) and f.endswith(('.rs', '.md', '.snap', '.toml', '.yaml', '.yml', '.sh', '.py', '.json'))]
moves = [l.split() for l in open(here + '/moves.txt')]
tests = [l.split()[1:] for l in open(here + '/mapping.txt') if l.startswith('word ') and l.split()[1].count('_') > 3 and len(l.split()) == 3]
names = dict(tests)
word = re.compile(r'\b(' + '|'.join(map(re.escape, names)) + r')\b')
# in these files only: (file or end of path, pattern, replacement)
LOCAL = [
    ('tests/e2e/arrows.rs', r'^whole:$', 'atomic_file:'),
    ('tests/e2e/arrows.rs', r'^report_file: rights whole$', 'report_file: atomic_file rights'),
    ('tests/e2e/arrows.rs', r'^    whole$', '    atomic_file'),
    ('tests/e2e/arrows.rs', r'^evidence: clock$', 'os_metrics: clock'),
    ('tests/e2e/arrows.rs', r'\btally\b', 'partial_sum'),
    ('tuner/tests/suite/tidy.rs', r'practice\.rs', 'warm_up.rs'),
    ('tuner/tests/suite/tidy.rs', r'pub struct Practice\(SetCommand\)', 'pub struct SetWarmUp(SetCommand)'),
    ('tuner/tests/suite/tidy.rs', r'fn practise\(&self, Practice\(command\): Practice\)', 'fn warm_up(&self, SetWarmUp(command): SetWarmUp)'),
    ('agent/profile/src/cost/mod.rs', r'kernel/gauge\.rs', 'kernel/calibration.rs'),
    ('tests/e2e/words.rs', r'^use std::fs;\nuse std::path::Path;\n\nuse tuneagent_e2e', 'mod names;\n\nuse std::fs;\nuse std::path::Path;\n\nuse tuneagent_e2e'),
    ('ebpf/abi/Cargo.toml', r'^missing_docs = "warn"\n', ''),
    ('rules/src/engine/nest.rs', r'\bfold\.reach\b', 'fold.range'),
    ('rules/src/engine/keyed_intake.rs', r'\bfold\.reach\b', 'fold.range'),
    ('.snap', r'__tests__whole__', '__tests__rule_files__'),
]
for f in files:
    try: t = open(f).read()
    except UnicodeDecodeError: continue
    n = t
    for a, b in moves: n = n.replace(a, b)
    n = word.sub(lambda m: names[m[1]], n)
    if f.startswith(('agent/', 'ebpf/', 'tests/', 'xtask/')) and f.endswith('.rs'):
        for a, b in (('TALLIES', 'PARTIAL_SUMS'), ('STRETCHES', 'EPOCHS'), ('TALLY_COUNT', 'SUM_COUNT')):
            n = n.replace('"' + a + '"', '"' + b + '"')
    for g, a, b in LOCAL:
        if f.endswith(g): n = re.sub(a, b, n, flags=re.M)
    if n != t: open(f, 'w').write(n)
