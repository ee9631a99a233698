export const testHelp = `spear test judges recorded runs, as spear-run --journal FILE wrote them, and names the first difference of each.

Usage:
  spear test --journals DIR                   is every run the same again? each is replayed with its own module
  spear test --journals DIR --wasm MODULE     would a changed guest, or prompt, do what each run did?
  spear test --journals DIR --policy PATH     would each call of a tool be let through as it was?

Nothing but guests runs: no model is asked, no server is started, no process, nothing goes over the network. Against
--wasm the changed guest gets what the journal knows: a request to the model gets its recorded answer if it is the same
request, a call of a tool its recorded result if it has the same arguments. The first thing that is asked, called or
printed otherwise is the difference, and ends that run. Against --policy no guest runs either.

Options:
  --journals PATH      a directory, of which all *.journal files are judged, those below it too; or one journal.
                       May be repeated
  --wasm MODULE        the changed guest
  --policy PATH        the changed policy: a directory of records and profiles as --mcp-dir has it, or a task config.
                       May be repeated: one directory, and configs of several tasks. What is not given stays as it was
                       recorded; a config that has a name is about the runs of that task
  --strict             against --policy: a tool that the model was shown and never called is a difference too, if it
                       would not be shown any more
  --journal-key REF    file:PATH or env:NAME of the key that encrypted journals are opened with
                       (default: [journal] key of the config file)
  --config FILE        the config file (default: $SPEAR_CONFIG, else ~/.config/spear/config.toml if it exists)
  --jobs N             guests that run at once (default: the number of processors)
  --json               a line of JSON for each run on stdout
  -h, --help           this text

Exit code:
  0 all are the same; 1 some differ; 2 bad usage, or journals that cannot be used, whatever the others are; 130 it was
  interrupted: what was judged by then is told.
`;
