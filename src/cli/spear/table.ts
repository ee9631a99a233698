import { runStatuses } from '../../server/records/run-status.ts';
import { auditVerifyFlags, tailFlags } from '../audit/flags.ts';
import {
  type Call,
  type Command,
  choice,
  command,
  flag,
  number,
  type Program,
  type Run,
  renamed,
  text,
} from '../command-table.ts';
import { doctorFlags, explainFlags } from '../doctor/flags.ts';
import { journalKeyFlags } from '../journal/flags.ts';
import { sideFlags, submitFlags } from '../node/side.ts';
import { runProgramTable } from '../run/table.ts';
import { smsProgram } from '../sms/table.ts';
import { spearletProgram } from '../spearlet/table.ts';
import { registryCommands } from './registry-table.ts';

const json = flag('print JSON instead of text');
const ofSide = { json, ...sideFlags };

const listFlags = {
  task: text('NAME', 'only runs of this task'),
  limit: number('N', 'number of runs', { min: 1, max: 500, fallback: '50' }),
  ...ofSide,
};

const sideExitCodes = {
  0: 'done',
  1: 'not found, invalid, or refused',
  2: 'invalid command line or config',
  3: 'registry or node unreachable',
  4: 'no token, or the token lacks permission',
};
const journalExitCodes = {
  0: 'the journal is intact',
  1: 'the journal is not intact; the first bad line is named',
  2: 'invalid command line',
};
const runsLoad =
  <Name extends keyof typeof import('../node/runs-command.ts')>(name: Name) =>
  async () =>
    (await import('../node/runs-command.ts'))[name];

const taskCommands = (
  [
    ['apply', 'FILE...', 'create tasks, or add a revision, from files or directories.', 'tasks.d', 'applyTasks'],
    ['ls', '', 'list all tasks.', '', 'listTasks'],
    ['get', 'NAME', 'show one task and its revisions.', 'hello', 'getTask'],
    ['promote', 'NAME@REVISION', 'make a newer or older revision the live one.', 'hello@2', 'promoteTask'],
    ['rm', 'NAME...', 'remove tasks; their runs continue.', 'hello', 'removeTasks'],
  ] as const
).map(([verb, args, summary, example, name]) =>
  command({
    path: `spear tasks ${verb}`,
    summary,
    args,
    description: args.startsWith('NAME') ? ['NAME may be NAMESPACE/NAME.'] : [],
    flags: ofSide,
    examples: [`spear tasks ${verb} ${example}`.trim()],
    exitCodes: sideExitCodes,
    load: async () => (await import('../node/tasks-command.ts'))[name],
  }),
);

const runCommands = [
  command({
    path: 'spear runs ls',
    summary: 'list the newest runs.',
    flags: { status: choice(runStatuses, 'only runs with this status'), ...listFlags },
    examples: ['spear runs ls --status failed'],
    exitCodes: sideExitCodes,
    load: runsLoad('listRuns'),
  }),
  command({
    path: 'spear runs dead',
    summary: 'list runs that used up their attempts; "spear runs retry" submits one again.',
    flags: listFlags,
    examples: ['spear runs dead'],
    exitCodes: sideExitCodes,
    load: runsLoad('deadRuns'),
  }),
  ...(
    [
      ['get', 'show one run.', 'getRun'],
      ['result', 'print what a run wrote to stdout.', 'runResult'],
      ['logs', 'print events of a run until it ends.', 'runLogs'],
      ['cancel', 'cancel a run.', 'cancelRun'],
      ['retry', 'submit a run again: a new run with the same input.', 'retryRun'],
      ['journal', 'print the journal of a run; needs the journals permission.', 'runJournal'],
    ] as const
  ).map(([verb, summary, name]) =>
    command({
      path: `spear runs ${verb}`,
      summary,
      args: 'ID',
      flags: ofSide,
      examples: [`spear runs ${verb} run-a90d4bff4f57fdf7832343e1d8095ee1`],
      exitCodes: sideExitCodes,
      load: runsLoad(name),
    }),
  ),
];

const journalCommands = [
  command({
    path: 'spear journal show',
    summary: 'print the timeline of a run.',
    args: 'FILE',
    description: [
      'Model turns with tokens, tool calls with arguments and results, approvals, waits, input, output, resumes and the end. Values that look like credentials are masked. A tool call without an end has the outcome unknown.',
    ],
    flags: {
      json: flag('print one JSON value'),
      full: flag('do not shorten long texts; credentials stay masked'),
      ...journalKeyFlags,
    },
    examples: ['spear journal show sum.journal'],
    exitCodes: journalExitCodes,
    load: async () => (await import('../journal/show.ts')).showJournal,
  }),
  command({
    path: 'spear journal verify',
    summary: 'check that no line was changed, removed, inserted or moved.',
    args: 'FILE',
    description: [
      'Without its key only the hash chain of an encrypted journal is checked. Not detected: a journal that was rewritten as a whole, and removed last blocks. --json has the hash of the last block; stored elsewhere, it proves later that the journal reached this point.',
    ],
    flags: { json: flag('print one JSON value'), ...journalKeyFlags },
    examples: ['spear journal verify sum.journal'],
    exitCodes: journalExitCodes,
    load: async () => (await import('../journal/verify.ts')).verifyJournal,
  }),
  command({
    path: 'spear journal script',
    summary: "print the model's turns as a script for spear-run --script, which calls live tools.",
    args: 'FILE',
    flags: {
      output: text('OUT', 'write to a file readable by its owner only', { short: 'o', fallback: 'stdout' }),
      ...journalKeyFlags,
    },
    examples: ['spear journal script sum.journal -o turns.json'],
    exitCodes: { ...journalExitCodes, 1: 'the journal is not intact, or has no model turns' },
    load: async () => (await import('../journal/script.ts')).scriptJournal,
  }),
  command({
    path: 'spear replay',
    summary: 'replay a run offline from the journal that spear-run --journal FILE recorded.',
    args: 'FILE',
    description: [
      'The guest runs again with the recorded results. No model is called, no tool is called, no process is started. Output and exit code are those of the recorded run; every record is compared with what the guest does.',
    ],
    flags: {
      wasm: text('MODULE', 'the same module at another path', { fallback: 'the path in the journal' }),
      ...journalKeyFlags,
    },
    examples: ['spear replay sum.journal'],
    exitCodes: {
      '…': 'the exit code of the guest, as for spear-run',
      2: 'invalid command line, or a journal that cannot be used',
      123: 'the run diverged from its journal; hostcall and position are on stderr',
      130: 'the journal ends before the run did',
    },
    load: async () => (await import('../journal/replay-command.ts')).replayCommand,
  }),
  command({
    path: 'spear test',
    summary: 'test recorded runs against the recorded module, a changed guest or a changed policy.',
    description: [
      'Without --wasm and --policy each run is replayed with its own module. With --wasm the changed guest gets the recorded answer to an equal model request, and the recorded result of a tool call with equal arguments. With --policy no guest runs: each recorded tool call is evaluated again. The first difference of each run is printed. No model is called, no server or process is started, nothing is sent over the network.',
    ],
    flags: {
      journals: text('PATH', 'a journal, or a directory that is searched for *.journal files', {
        multiple: true,
        required: true,
      }),
      wasm: text('MODULE', 'the changed guest'),
      policy: text(
        'PATH',
        'the changed policy: a directory of servers and profiles as for --mcp-dir, or task files. Anything not given stays as recorded; a task file with a name applies to the runs of that task',
        { multiple: true },
      ),
      strict: flag('with --policy: a tool that was offered but never called, and would not be offered now, differs'),
      jobs: number('N', 'guests that run at once', { min: 1, max: 64, fallback: 'number of processors' }),
      json: flag('print one line of JSON per run'),
      ...journalKeyFlags,
    },
    examples: ['spear test --journals journals', 'spear test --journals journals --policy tomorrow.json'],
    exitCodes: {
      0: 'all runs are unchanged',
      1: 'some runs differ',
      2: 'invalid command line, or a journal that cannot be used',
      130: 'interrupted; results so far are printed',
    },
    load: async () => (await import('../replay-tests/command.ts')).testCommand,
  }),
];

const auditCommands = [
  command({
    path: 'spear audit verify',
    summary: 'check that no line of an audit log was changed, removed, inserted, repeated or moved.',
    args: '[FILE...]',
    description: [
      'One FILE includes its rotated files (FILE.1, FILE.2, …); several are used as given. Without FILE, audit.file of the config is checked.',
      'Not detected: removed last lines of a chain, and, without a key (audit.key of the config), a chain that was rewritten as a whole. The report says whether each chain has an end; --json has the hash of its last line, which, stored elsewhere, proves later that the chain reached this point. It also counts removed rotated files, lost lines, and events that were counted instead of written.',
    ],
    flags: { ...auditVerifyFlags, config: journalKeyFlags.config },
    examples: ['spear audit verify audit.jsonl'],
    exitCodes: {
      0: 'the audit log is intact',
      1: 'the audit log is not intact; the first bad line is named',
      2: 'invalid command line, or a file cannot be read',
    },
    load: async () => (await import('../audit/command.ts')).verifyCommand,
  }),
  command({
    path: 'spear audit tail',
    summary: 'print the last lines of an audit log.',
    args: '[FILE]',
    description: ['FILE includes its rotated files. Without FILE, audit.file of the config is read.'],
    flags: { ...tailFlags, json: flag('print the lines as they are'), config: journalKeyFlags.config },
    examples: [
      "spear audit tail audit.jsonl -f --event 'tool_call.*' --status denied",
      "spear audit tail audit.jsonl --since 15m --tool 'write_*' --json",
    ],
    exitCodes: { 0: 'done', 2: 'invalid command line, or a file cannot be read' },
    load: async () => (await import('../audit/command.ts')).tailCommand,
  }),
];

const toolCommands = [
  command({
    path: 'spear doctor',
    summary: 'find out why a task has no tools; every problem is shown with its fix.',
    args: 'FILE.wasm',
    description: [
      'Checks, in this order: Node and JSPI; the module and its imports; the task file; the registry; every server that a session would use (its references, connection, tools/list) and each of its tools; the backend; whether the model calls tools. With --sms, SPEAR_SMS and an admin token it also lists tokens whose names an approver rule reserves. No guest runs. Servers are started or connected to, and stopped. The model gets one small request with one tool.',
    ],
    flags: doctorFlags,
    examples: ['spear doctor agent.wasm --task-config task.json --mcp-dir mcp.d'],
    exitCodes: {
      0: 'no problem found',
      1: 'problems found',
      2: 'invalid command line',
      '130, 143': 'interrupted by Ctrl-C or SIGTERM before the checks were complete',
    },
    load: async () => (await import('../doctor/command.ts')).doctorCommand,
  }),
  command({
    path: 'spear explain',
    summary: 'explain why a task may or may not call a tool, read a resource or get a prompt.',
    args: 'SERVER NAME',
    description: [
      'Shows each layer: task, session, registry, the tool lists of each, approval, budgets. No server is started, so the tool need not exist; --connect checks the server too. Without a registry only the layers of the task are known.',
    ],
    flags: explainFlags,
    examples: ['spear explain fs read_file --task-config task.json --mcp-dir mcp.d'],
    exitCodes: { 0: 'allowed by every checked layer', 1: 'denied', 2: 'invalid command line' },
    load: async () => (await import('../doctor/explain-command.ts')).explainCommand,
  }),
  command({
    path: 'spear componentize',
    summary: 'convert a core module that imports the functions of spear.wit to a component.',
    args: 'MODULE.wasm',
    description: [
      'WASI preview 1 is adapted. Guests in C and AssemblyScript need this step, and guests in Rust unless they are built for wasm32-wasip2; componentize-qjs makes components of JavaScript itself.',
    ],
    flags: {
      output: text('COMPONENT.wasm', 'file to write', { short: 'o', required: true }),
      world: choice(['task', 'imports'], 'task: the module exports run; imports: it is a program with a main', {
        fallback: 'by the exports of the module',
      }),
    },
    examples: ['spear componentize agent.wasm -o agent.component.wasm'],
    exitCodes: { 0: 'done', 1: 'the module does not match the world', 2: 'invalid command line' },
    load: async () => (await import('../componentize.ts')).componentizeCommand,
  }),
  command({
    path: 'spear completion',
    summary: 'print a shell completion script for spear, spear-run, spear-sms and spearlet.',
    args: 'bash|zsh|fish',
    flags: {},
    examples: ['source <(spear completion bash)', 'spear completion fish | source'],
    exitCodes: { 0: 'done', 2: 'invalid command line' },
    load: async () => (await import('./completion.ts')).completionCommand,
  }),
  command({
    path: 'spear help',
    summary: 'print help of a command.',
    args: '[COMMAND...]',
    flags: {},
    examples: ['spear help servers apply'],
    exitCodes: { 0: 'done', 2: 'unknown command' },
    load: async () => (await import('../command-help.ts')).helpCommand,
  }),
  command({
    path: 'spear version',
    summary: 'print the version, and those of the stored formats and the ABI.',
    flags: {},
    examples: ['spear version'],
    exitCodes: { 0: 'done' },
    load: async () => (await import('../command-help.ts')).versionCommand,
  }),
];

/** The command of another program; idle timers and threads of its libraries do not keep this process alive. */
function borrowed(entry: Command, path: string, load: Command['load'] = entry.load): Command {
  const exiting = async (): Promise<Run<never>> => {
    const run = await load();
    return async (call: Call<never>) => process.exit(await run(call));
  };
  return { ...renamed(entry, path), load: exiting };
}

const [runFile] = runProgramTable.commands;
const [serveRegistry, ...registryFiles] = smsProgram.commands;
const [serveNode] = spearletProgram.commands;

export const spearProgram = {
  name: 'spear',
  groups: {
    spear: 'run agents, and manage the registries and nodes that run them.',
    'spear servers': 'manage the MCP servers of a registry (spear-sms).',
    'spear profiles': 'manage the profiles of a registry: selections of servers and tools that tasks name.',
    'spear approvals': 'show and decide tool calls that need an approval (spear-run --approve sms, spearlet --sms).',
    'spear tokens': 'manage the tokens of a registry: which user may do what.',
    'spear nodes': 'show the nodes that follow a registry.',
    'spear tasks': 'manage the tasks of a registry, or of a node without one.',
    'spear runs': 'show and control the runs of a registry with --queue, or of a node.',
    'spear journal': 'read journals that spear-run --journal FILE wrote.',
    'spear audit': 'read audit logs that spear-run --audit FILE, spear-sms and spearlet write.',
    'spear registry': 'serve and copy a registry; the same as spear-sms.',
    'spear node': 'run a node; the same as spearlet.',
  },
  commands: [
    ...registryCommands,
    ...taskCommands,
    {
      ...borrowed(runFile, 'spear run', async () => (await import('../run/run-file.ts')).runFile as Run<never>),
      args: 'FILE.wasm',
      accepts: (argument) => argument.endsWith('.wasm'),
      description: ['A first argument that ends in .wasm is a module, which runs like "spear-run FILE.wasm".'],
    },
    command({
      path: 'spear run',
      summary: 'submit a run of a task to a registry or node, wait for it, and print its output.',
      args: 'TASK',
      description: ['TASK may be NAMESPACE/TASK. A registry must have been started with --queue.'],
      flags: submitFlags,
      examples: ['spear run hello --input question.txt', 'spear run hello --detach'],
      exitCodes: {
        '…': 'the exit code of the guest, where it has one',
        1: 'the run failed, or there is no such task',
        2: 'invalid command line or config',
        3: 'registry or node unreachable',
        4: 'no token, or the token lacks permission',
        130: 'Ctrl-C; the run continues',
      },
      load: async () => (await import('../node/run-command.ts')).submitRun,
    }),
    ...runCommands,
    ...toolCommands.slice(0, 2),
    ...journalCommands,
    ...auditCommands,
    borrowed(serveRegistry, 'spear registry serve'),
    ...registryFiles.map((entry) => borrowed(entry, entry.path.replace('spear-sms', 'spear registry'))),
    borrowed(serveNode, 'spear node serve'),
    ...toolCommands.slice(2),
  ],
} as const satisfies Program;
