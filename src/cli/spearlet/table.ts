import { command, type Program } from '../command-table.ts';
import { dataFlags, spearletFlags } from './flags.ts';

const copyCommand = (verb: 'backup' | 'restore', summary: string, description: string) =>
  command({
    path: `spearlet ${verb}`,
    summary,
    description: [description],
    args: 'FILE',
    flags: dataFlags,
    examples: [`spearlet ${verb} node.backup`],
    exitCodes: { 0: 'done', 1: 'failed', 2: 'invalid command line or config' },
    load: async () => (await import('./backup.ts'))[verb],
  });

export const spearletProgram = {
  name: 'spearlet',
  commands: [
    command({
      path: 'spearlet',
      summary: 'run a node, which accepts runs over HTTP, queues them and runs their guests.',
      description: [
        'Serves until SIGINT or SIGTERM. Without options it listens on loopback and keeps its data in the state directory of this user. Queue, results, journals and tasks are files under --data: a node that was killed resumes its runs at the next start. When it is ready it prints one line of JSON on stdout: {"http":"http://HOST:PORT"}.',
        'Flags override the config file; the config field is in parentheses.',
        'Tokens: the first start writes admin.token and submitter.token under --data, readable by their owner only. "Authorization: Bearer TOKEN": the admin token allows everything; the submitter token allows runs in the namespace "default". [[node.submitters]] of the config lists further ones, each with its namespace. SIGHUP reads the token files again. With --sms, users authenticate with their registry tokens (spear tokens create --role submitter), and of the local files only admin.token is valid.',
      ],
      flags: spearletFlags,
      examples: [
        'spearlet --task-dir tasks.d --mcp-dir mcp.d',
        'spearlet --sms 127.0.0.1:50051 --slots 200',
        'spearlet --task-dir tasks.d --queue nats://127.0.0.1:4222',
      ],
      exitCodes: {
        0: 'stopped as requested',
        1: 'cannot start',
        2: 'invalid command line or config',
        3: 'a task was refused by --strict',
        '130, 143': 'stopped at once by a second SIGINT or SIGTERM; active runs resume at the next start',
      },
      load: async () => (await import('./command.ts')).serveNode,
    }),
    copyCommand(
      'backup',
      'write a consistent copy of runs, journals, tasks and modules, also while the node serves.',
      'FILE is a tar archive with the inputs, results and journals of all runs: keep it as safe as the data directory. Tokens, the config and the state of MCP servers are not in it. With --queue, runs are in NATS: back up its JetStream store instead.',
    ),
    copyCommand(
      'restore',
      'replace the data of a node with a copy; the node must not be serving.',
      'Starts a new epoch. Runs that had not ended when the copy was made resume from their journals; a call that is not in its journal may have been made after the copy was made, so its outcome is unknown and it is not repeated. The replaced data is kept in the folder before-restore of the data directory.',
    ),
  ],
} as const satisfies Program;
