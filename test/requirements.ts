/** A promise of this project. Tests name the ids of what they verify in their titles. */
export interface Requirement {
  readonly id: string;
  readonly text: string;
  /** Where the promise was made. */
  readonly source: string;
}

export const requirements: readonly Requirement[] = [
  {
    id: 'bench.check',
    text: 'The bench can fail: every ratio has a named ceiling, and --check reports what is above it.',
    source: 'issue 2',
  },
  {
    id: 'bench.hostcalls',
    text: 'The bench measures every hostcall beside a bare import of the same run.',
    source: 'issue 2',
  },
  { id: 'bench.report', text: 'The bench prints a table and writes the same numbers as JSON.', source: 'issue 2' },
  {
    id: 'cli.backend',
    text: 'The backend is chosen by --backend, else by the task, else by default_backend; --script replaces them all.',
    source: 'issue 2',
  },
  {
    id: 'cli.config-file',
    text: 'The config file is found by --config, SPEAR_CONFIG or the place of the user; mistakes name the file and the field.',
    source: 'issue 2',
  },
  { id: 'cli.dry-run', text: '--dry-run checks everything and runs nothing.', source: 'issue 2' },
  {
    id: 'cli.exit-code.deadline',
    text: 'A guest beyond its deadline is ended whatever it does, its output is kept, and the exit code is 124.',
    source: 'issue 2',
  },
  { id: 'cli.exit-code.guest', text: 'The exit code is the one of the guest.', source: 'issue 2' },
  {
    id: 'cli.exit-code.interrupt',
    text: 'Ctrl-C ends the guest, then the host, with 130 (SIGTERM: 143); a second one ends the host at once.',
    source: 'issue 2',
  },
  {
    id: 'cli.exit-code.trap',
    text: 'A trap exits with 134 and shows the stack of the guest with the names of its functions.',
    source: 'issue 2',
  },
  { id: 'cli.exit-code.usage', text: 'A bad command line, config or module exits with 125.', source: 'issue 2' },
  {
    id: 'cli.flags',
    text: 'Flags stand before or after the module, and each has a value whether it is given or not.',
    source: 'issue 2',
  },
  {
    id: 'cli.guest-args',
    text: 'A guest gets the arguments of its task and those after --, as they are.',
    source: 'issue 2',
  },
  {
    id: 'cli.guest-env',
    text: 'A guest sees the variables of its task and of --env, and none of the host.',
    source: 'issue 2',
  },
  { id: 'cli.help', text: '--help tells of every flag and every exit code.', source: 'issue 2' },
  {
    id: 'cli.json',
    text: '--json moves the output of the guest to stderr and prints one result object on stdout.',
    source: 'issue 2',
  },
  {
    id: 'cli.log-levels',
    text: 'Log lines up to info go to stdout, warn and error to stderr, debug and trace only with --verbose.',
    source: 'issue 2',
  },
  { id: 'cli.log-rate', text: 'Log lines beyond the rate are dropped, said once and counted.', source: 'issue 2' },
  { id: 'cli.module', text: 'A module that cannot run is refused with its name and the reason.', source: 'issue 2' },
  { id: 'cli.npx', text: 'npx spear-run in a checkout runs on the Node that the project brings.', source: 'issue 2' },
  { id: 'cli.offline', text: 'Without a model on the network no connection is tried.', source: 'issue 2' },
  { id: 'cli.old-node', text: 'A Node below 24 gets one line that says so, and 125.', source: 'issue 2' },
  {
    id: 'cli.openai-env',
    text: 'OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL work with no config at all.',
    source: 'issue 2',
  },
  {
    id: 'cli.output.closed',
    text: 'A reader that goes away disturbs neither the guest nor the host.',
    source: 'issue 2',
  },
  {
    id: 'cli.output.complete',
    text: 'Megabytes of output reach a slow reader without a byte lost.',
    source: 'issue 2',
  },
  { id: 'cli.script', text: 'A script that is wrong is refused before the guest starts.', source: 'issue 2' },
  { id: 'cli.secrets', text: 'A key shows in no output, no message and no environment of a guest.', source: 'issue 2' },
  { id: 'cli.start-up', text: 'spear-run hello.wasm costs at most three times node -e 0.', source: 'issue 2' },
  {
    id: 'cli.stdin',
    text: 'A guest reads stdin as it comes, and an input that stays open does not keep a guest that ends.',
    source: 'issue 2',
  },
  { id: 'cli.stub', text: 'With no model configured a stub answers and says so on stderr.', source: 'issue 2' },
  {
    id: 'cli.usage',
    text: 'A wrong command line gets one line that names the flag, what was found and the nearest valid flag.',
    source: 'issue 2',
  },
  { id: 'cli.verbose', text: '--verbose shows debug and trace lines and counts the hostcalls.', source: 'issue 2' },
  { id: 'cli.version', text: '--version prints the version of the package.', source: 'issue 2' },
  {
    id: 'docs.commands',
    text: 'Every command of the README works as written, and .ci/run calls its test command.',
    source: 'issue 2',
  },
  {
    id: 'docs.generated',
    text: 'The ABI page and the tables of the README are what the code says.',
    source: 'issue 2',
  },
  {
    id: 'examples.agent',
    text: 'The agent example fails with a clear message when the model does not play along.',
    source: 'issue 2',
  },
  { id: 'examples.chat', text: 'The chat example takes its question from the command line.', source: 'issue 2' },
  {
    id: 'layout.cycles',
    text: 'No two files of src/ import each other, directly or through others, types included.',
    source: 'issue 2',
  },
  {
    id: 'layout.direction',
    text: 'Imports between the folders of src/ only go down the list of layers.',
    source: 'issue 2',
  },
  { id: 'layout.environment', text: 'Only src/config/ reads the environment of the process.', source: 'issue 2' },
  { id: 'layout.length', text: 'No file of src/ is longer than 500 lines.', source: 'issue 2' },
  { id: 'limits.compile', text: 'Limits are compiled once into a frozen object.', source: 'issue 2' },
  { id: 'limits.defaults', text: 'Every limit has a documented default inside its range.', source: 'issue 2' },
  { id: 'package.contents', text: 'The package holds what it needs and nothing of the workshop.', source: 'issue 2' },
  {
    id: 'package.install',
    text: 'The packed tarball installed elsewhere runs guests and finds its libraries.',
    source: 'issue 2',
  },
  { id: 'package.library', text: 'The package is a library whose types resolve.', source: 'issue 2' },
  {
    id: 'requirements.covered',
    text: 'Every requirement has a test that names it, and every test names a requirement that exists.',
    source: 'issue 2',
  },
  { id: 'task.bare-map', text: 'A map of strings without any key of ours is taken as config.', source: 'issue 2' },
  {
    id: 'task.keys',
    text: 'A task config has name, config, limits, args, env and backend, all optional.',
    source: 'issue 2',
  },
  {
    id: 'task.limits',
    text: 'Limits of a task are checked against their ranges, and --limit has the last word.',
    source: 'issue 2',
  },
  {
    id: 'task.strict',
    text: 'Mistakes in a task config are all named, with file, field and the nearest valid key.',
    source: 'issue 2',
  },
];
