import { readFile, stat } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { BackendError } from '../chat/backend.ts';
import { BackendSet } from '../chat/backends/open-backend.ts';
import { type CompiledHostConfig, HostConfigError, loadHostConfig } from '../config/host-config.ts';
import { compileLimits, type Limits } from '../config/limits.ts';
import { processEnvironment } from '../config/process-environment.ts';
import { loadTaskConfig, TaskConfigError } from '../config/task-config.ts';
import { ModuleError } from '../guest/module-error.ts';
import { prepare } from '../guest/prepare.ts';
import { type RunResult, runGuest } from '../guest/run.ts';
import { exitCodes } from './exit-codes.ts';
import { parseRunFlags, type RunFlags } from './run-flags.ts';
import { runHelp } from './run-help.ts';
import { UsageError } from './usage-error.ts';
import { version } from './version.ts';

const say = (text: string) => process.stderr.write(`spear-run: ${text}\n`);

/** `spear-run`: from the command line to an exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  try {
    const flags = parseRunFlags(argv);
    if (flags === 'help') return print(runHelp);
    if (flags === 'version') return print(`spear-run ${version}\n`);
    return await run(flags);
  } catch (error) {
    if (!isExpected(error)) throw error;
    for (const line of error.message.split('\n')) say(line);
    return exitCodes.usage;
  }
}

function isExpected(error: unknown): error is Error {
  return (
    error instanceof UsageError ||
    error instanceof TaskConfigError ||
    error instanceof HostConfigError ||
    error instanceof BackendError ||
    error instanceof ModuleError
  );
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

async function run(flags: RunFlags): Promise<number> {
  // Read while the rest is being set up; a failure is reported when the bytes are needed.
  const wasm = readModule(flags.wasm);
  wasm.catch(() => {});
  const task = await loadTaskConfig(flags.taskConfig);
  const limits = compileLimits({ ...task.limits, ...flags.limits });
  const host = withFlags(await loadHostConfig({ file: flags.config, env: processEnvironment }), flags, task.backend);
  const backends = new BackendSet(host, {
    onStubUsed: () => say('no model is configured, a stub answers; see spear-run --help, "The model"'),
  });
  try {
    if (flags.dryRun) return await dryRun(flags, await wasm, limits, backends, host);
    const interrupt = new AbortController();
    const release = onSignals(interrupt);
    const result = await runGuest({
      wasm,
      args: [basename(flags.wasm), ...task.args, ...flags.guestArgs],
      env: { ...task.env, ...flags.env },
      limits,
      backend: (name) => backends.get(name),
      output: flags.json ? { stdout: 2, stderr: 2 } : { stdout: 1, stderr: 2 },
      stdin: () => process.stdin,
      verbose: flags.verbose,
      allowUnknownImports: flags.allowUnknownImports,
      signal: interrupt.signal,
      onNotice: say,
    });
    release();
    return report(flags, result, interrupt.signal);
  } finally {
    await backends.close();
  }
}

async function readModule(file: string): Promise<Uint8Array> {
  try {
    return await readFile(file);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const isFolder = code === 'EISDIR' || (await stat(file).catch(() => undefined))?.isDirectory();
    throw new ModuleError(isFolder ? 'it is a folder' : code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})`);
  }
}

/** The command line has the last word on which backend answers. */
function withFlags(host: CompiledHostConfig, flags: RunFlags, taskBackend: string | null): CompiledHostConfig {
  if (flags.script !== undefined) {
    const name = 'script';
    const script = { kind: 'scripted', name, script: resolve(flags.script) } as const;
    return { ...host, backends: new Map([[name, script]]), defaultBackend: name };
  }
  const chosen = flags.backend ?? taskBackend ?? undefined;
  if (chosen !== undefined && !host.backends.has(chosen)) {
    const from = flags.backend === undefined ? `${flags.taskConfig}: backend` : '--backend';
    throw new UsageError(`${from}: there is no backend "${chosen}" (configured: ${[...host.backends.keys()].join(', ')})`);
  }
  return { ...host, defaultBackend: chosen ?? host.defaultBackend };
}

async function dryRun(
  flags: RunFlags,
  bytes: Uint8Array,
  limits: Limits,
  backends: BackendSet,
  host: CompiledHostConfig,
): Promise<number> {
  const { unknownImports } = await prepare(bytes, { limits, allowUnknownImports: flags.allowUnknownImports }).catch((error) =>
    blame(flags.wasm, error),
  );
  await backends.get();
  const about = [
    `module   ${flags.wasm}: ${bytes.byteLength} bytes, core module${unknownImports.length ? `, ${unknownImports.length} unknown imports` : ''}`,
    `backend  ${host.defaultBackend}${host.file ? ` of ${host.file}` : ''}`,
    `limits   ${Object.entries(limits)
      .map(([name, value]) => `${name}=${value}`)
      .join(' ')}`,
    'nothing was run',
  ];
  if (flags.json) return print(`${JSON.stringify({ ok: true, backend: host.defaultBackend, limits })}\n`);
  return print(`${about.join('\n')}\n`);
}

function blame(file: string, error: unknown): never {
  if (error instanceof ModuleError) throw new ModuleError(`${file}: ${error.message}`);
  throw error;
}

/** The first signal ends the guest, then the host; the second ends the host at once. */
function onSignals(interrupt: AbortController): () => void {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  const handler = (signal: NodeJS.Signals) => {
    if (interrupt.signal.aborted) process.exit(signalCode(signal));
    interrupt.abort(signal);
  };
  for (const signal of signals) process.on(signal, handler);
  return () => {
    for (const signal of signals) process.off(signal, handler);
  };
}

const signalCode = (signal: unknown) => (signal === 'SIGTERM' ? exitCodes.terminated : exitCodes.interrupted);

function report(flags: RunFlags, result: RunResult, interrupted: AbortSignal): number {
  const code = exitCode(result, interrupted);
  if (result.message !== null) say(result.reason === 'module' ? `${flags.wasm}: ${result.message}` : describe(result));
  if (result.stack) process.stderr.write(`${indent(result.stack)}\n`);
  if (result.droppedLogLines > 0) say(`${result.droppedLogLines} log lines were dropped`);
  if (flags.verbose) say(`hostcalls ${JSON.stringify(result.hostcalls)}`);
  if (flags.json) process.stdout.write(`${JSON.stringify(toJson(result, code))}\n`);
  return code;
}

function describe(result: RunResult): string {
  return result.reason === 'trap' ? `the guest trapped: ${result.message}` : String(result.message);
}

function exitCode({ reason, exitCode: own }: RunResult, interrupted: AbortSignal): number {
  switch (reason) {
    case 'exit':
      return (own ?? 0) & 0xff;
    case 'deadline':
      return exitCodes.deadline;
    case 'interrupted':
      return signalCode(interrupted.reason);
    case 'trap':
    case 'memory':
      return exitCodes.trap;
    case 'module':
    case 'internal':
      return exitCodes.usage;
  }
}

const indent = (text: string) => text.replaceAll(/^/gm, '    ');

function toJson(result: RunResult, code: number) {
  return {
    exit_code: code,
    reason: result.reason,
    guest_exit_code: result.exitCode,
    message: result.message,
    stack: result.stack === '' ? [] : result.stack.split('\n'),
    durations: result.durations,
    hostcalls: result.hostcalls,
    model_calls: result.chat.iterations,
    tool_calls: result.chat.tool_calls,
    tokens: result.chat.usage,
    dropped_log_lines: result.droppedLogLines,
  };
}
