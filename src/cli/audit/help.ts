export const auditHelp = `spear audit reads the trails that spear-run --audit FILE and spear-sms write.

Usage:
  spear audit verify [FILE]...   whether a line was changed, taken out, put in, repeated or moved
  spear audit tail [FILE]        the last lines, for people

One FILE stands for its rotated files too (FILE.1, FILE.2, …, FILE: oldest first); several are taken as they are
given. Without FILE it is audit.file of the config file.

Examples:
  spear audit verify audit.jsonl
  spear audit tail audit.jsonl -f --event 'tool_call.*' --status denied
  spear audit tail audit.jsonl --since 15m --tool 'write_*' --json

What verify cannot know: the last lines of a chain can be taken away, and without a key (audit.key of the config file)
a whole chain be written anew, and nothing shows it. It says of each chain whether it ended in order; --json has the
hash of its last line, which, kept elsewhere, proves later that the chain went at least this far.
It says how much is gone in good order: files that rotation removed, lines that were lost, events that were counted
instead of written because one run made too many of a kind.

Options:
  --key REFERENCE      verify: file:PATH or env:NAME of the key that the lines are signed with; may be repeated. Every
                       chain must have one of them (default: audit.key, if FILE is audit.file)
  --strict             verify: 1 also if lines were rotated away or lost, or a chain has no end
  -f, --follow         tail: go on with what is added, also after the file is rotated
  -n, --lines N        tail: how many of the last lines that match (default: 20; all)
  --server ID          tail: of this server
  --tool PATTERN       tail: of tools of such a name (*, ?)
  --session ID         tail: of this session
  --task NAME          tail: of this task
  --instance ID        tail: of this run
  --event PATTERN      tail: of such events (tool_call.*, approval.*, …)
  --status STATUS      tail: ok, denied, failed, …
  --since TIME         tail: not older than 90s, 15m, 2h, 3d, or a time such as 2026-01-31T08:00:00Z
  --config FILE        the config file (default: as for spear-run)
  --json               verify: one JSON value; tail: the lines as they are
  -h, --help           this text

Exit code:
  0 the trail is whole; 1 it is not, and the first bad line was named; 2 bad usage, or a file cannot be read.
`;
