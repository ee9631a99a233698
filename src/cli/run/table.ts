import { command, type Program } from '../command-table.ts';
import { exitCodes } from '../exit-codes.ts';
import { runFlagSpecs } from './flags.ts';

export const runProgramTable = {
  name: 'spear-run',
  commands: [
    command({
      path: 'spear-run',
      summary: 'run an agent compiled to WebAssembly in this process.',
      args: '[FILE.wasm]',
      rest: 'GUEST_ARGS',
      description: [
        'The guest calls a chat model and tools through hostcalls; this command is their host. Without any configuration the model is a built-in stub that says so. FILE.wasm may be left out with --resume FILE, and with a --task-config that names the module.',
      ],
      flags: runFlagSpecs,
      examples: [
        'spear-run hello.wasm',
        'spear-run agent.wasm --task-config task.json -- --report weekly',
        'OPENAI_API_KEY=… OPENAI_MODEL=… spear-run chat.wasm -- "What is new?"',
        'spear-run agent.wasm --script turns.json',
        'spear-run agent.wasm --task-config task.json --mcp-dir mcp.d --audit audit.jsonl',
        'spear-run agent.wasm --limit timeout_ms=5000',
      ],
      exitCodes: {
        '…': 'the exit code of the guest',
        [exitCodes.diverged]: 'a resumed run diverged from its journal',
        [exitCodes.deadline]: 'the guest reached limits.timeout_ms',
        [exitCodes.usage]: 'invalid command line, config or module',
        [exitCodes.hungUp]: 'SIGHUP',
        [exitCodes.interrupted]: 'Ctrl-C; a second Ctrl-C exits at once',
        [exitCodes.trap]: 'the guest trapped; its stack is on stderr',
        [exitCodes.terminated]: 'SIGTERM',
      },
      usageExitCode: exitCodes.usage,
      load: async () => (await import('./command.ts')).runModule,
    }),
  ],
} as const satisfies Program;
