export const replayHelp = `spear replay lives through a run again, as spear-run --journal FILE recorded it.

Usage:
  spear replay FILE [--wasm MODULE]

The guest computes everything anew; what it was told, it is told again at the same places. Nothing else runs: no model
is asked, no tool is called, no process started. Its output and exit code are those of the run, and it is checked at
every record that the guest does what it did.

Options:
  --wasm MODULE        the module, if it is not where it was; it must be the same
  --journal-key REF    file:PATH or env:NAME of the key that an encrypted journal is opened with
                       (default: [journal] key of the config file)
  --config FILE        the config file (default: $SPEAR_CONFIG, else ~/.config/spear/config.toml if it exists)
  -h, --help           this text

Exit code:
  the guest's own, as spear-run has it; 123 the run diverged from its journal, with the hostcall and the place on
  stderr; 130 the journal ends before the run did; 2 bad usage, or a journal that cannot be used.
`;

export const journalHelp = `spear journal reads what spear-run --journal FILE wrote.

Usage:
  spear journal show FILE        what happened, each thing with its time: turns of the model with their tokens, tool
                                 calls with arguments and results, approvals, waits, input and output, resumes, the end
  spear journal verify FILE      whether a line was changed, taken out, put in or moved
  spear journal script FILE      the model's turns as a script: spear-run --script runs them again, with live tools

show masks what looks like a credential, and cuts long texts and says so. A tool call without an end is unknown.

Of an encrypted journal verify checks the chain, and with its key the records too.
What verify cannot know: a whole journal can be written anew, and its last blocks be taken away. --json has the hash of
its last block, which, kept elsewhere, proves later that the journal went at least this far.

Options:
  --json               show, verify: one JSON value
  --html [OUT]         show: one page that needs nothing else, in OUT (default: FILE.html; - is stdout), for its owner
                       alone; FILE comes before it
  --full               show: texts are not cut; they are masked all the same
  -o, --output OUT     script: write it there, for its owner alone (default: stdout)
  --journal-key REF    file:PATH or env:NAME of the key that an encrypted journal is opened with
                       (default: [journal] key of the config file)
  --config FILE        the config file (default: $SPEAR_CONFIG, else ~/.config/spear/config.toml if it exists)
  -h, --help           this text

Exit code:
  0 done, and it is what was written; 1 it is not, and the first bad line was named, or no model answered in it;
  2 bad usage.
`;
