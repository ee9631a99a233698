import { ModuleError, type ModuleProblem } from '../../abi/guest-module.ts';
import { version } from '../../base/version.ts';
import { BackendError, type ChatBackend } from '../../chat/backend.ts';
import { ConfigError } from '../../config/config-error.ts';
import { moduleRemedies } from '../../doctor/module-remedy.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { McpLogEntry } from '../../run/open-mcp.ts';
import type { RunResult } from '../../run/run-guest.ts';
import { type OpenTask, openTask, type TaskCheck } from '../../run/run-task.ts';
import { serveMetrics } from '../../run/serve-metrics.ts';
import type { TaskOptions } from '../../run/task-options.ts';
import { exitCodes } from '../exit-codes.ts';
import { UsageError } from '../usage-error.ts';
import { auditsToStdout, openRunAudit } from './audit.ts';
import { parseRunFlags, type RunFlags } from './flags.ts';
import { runHelp } from './help.ts';
import { print, say, sayBlock, waits } from './output.ts';
import { flagWords, registryOptions } from './registry-flags.ts';

/** `spear-run`: from the command line to an exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  let json = false;
  try {
    const flags = parseRunFlags(argv);
    if (flags === 'help') return succeed(runHelp);
    if (flags === 'version') return succeed(`spear-run ${version}\n`);
    json = flags.json;
    return await run(flags);
  } catch (error) {
    if (!isExpected(error)) throw error;
    for (const line of error.message.split('\n')) say(line);
    if (json) print(`${JSON.stringify({ exit_code: exitCodes.usage, reason: 'usage', message: error.message })}\n`);
    return exitCodes.usage;
  }
}

function isExpected(error: unknown): error is Error {
  return (
    error instanceof UsageError ||
    error instanceof ConfigError ||
    error instanceof BackendError ||
    error instanceof ModuleError
  );
}

function succeed(text: string): number {
  print(text);
  return 0;
}

async function run(flags: RunFlags): Promise<number> {
  auditsToStdout(flags);
  const closers: (() => unknown)[] = [];
  try {
    const metrics = flags.metrics === undefined || flags.dryRun ? null : await openMetrics(flags.metrics, closers);
    const trace = await openTrace(flags, closers);
    const task = await openTask(
      { ...taskOptions(flags, metrics), trace, backend: await openModel(flags, closers) },
      flagWords,
    );
    closers.unshift(() => task.close());
    const audit = await openRunAudit(flags, task.host.audit, task.name, closers, say);
    const approvals = task.mcp === null ? {} : (await import('./approvals.ts')).openApprovals(flags, guestFds(flags));
    if (flags.dryRun) return await dryRun(flags, task);
    const interrupt = new AbortController();
    const release = onSignals(interrupt);
    const result = await task.run({ stdin: () => process.stdin, ...approvals, audit, signal: interrupt.signal });
    release();
    return report(flags, result, interrupt.signal);
  } finally {
    for (const close of closers) await close();
  }
}

/** Where the guest's own output goes: stdout is wanted for something else where a result or the trail is printed. */
const guestFds = (flags: RunFlags) =>
  flags.json || auditsToStdout(flags) ? { stdout: 2, stderr: 2 } : { stdout: 1, stderr: 2 };

function taskOptions(flags: RunFlags, metrics: Metrics | null): TaskOptions {
  return {
    wasm: flags.wasm,
    task: flags.taskConfig,
    config: flags.config,
    args: flags.guestArgs,
    env: flags.env,
    limits: flags.limits,
    output: guestFds(flags),
    verbose: flags.verbose,
    allowUnknownImports: flags.allowUnknownImports,
    componentCache: flags.noCache ? null : undefined,
    mcp: { ...registryOptions(flags), log: sayMcp(flags) },
    waiting: waits.waiting,
    metrics,
    onNotice: say,
  };
}

/** Loaded only where it is asked for. */
async function openTrace({ trace, dryRun }: RunFlags, closers: (() => unknown)[]): Promise<TaskOptions['trace']> {
  if (trace === undefined || dryRun) return null;
  const opened = (await import('./trace.ts')).openTrace(trace, say);
  closers.push(() => opened.close());
  return opened.write;
}

/** A script is checked now, not when the guest first sends. */
async function openModel(
  { script: file, backend }: RunFlags,
  closers: (() => unknown)[],
): Promise<ChatBackend | string | undefined> {
  if (file === undefined) return backend;
  const { scriptedBackend } = await import('../../chat/backends/program-backends.ts');
  const script = await scriptedBackend({ file, name: 'script', waiting: waits.waiting });
  closers.push(() => script.close());
  return script;
}

const sayMcp =
  ({ verbose }: RunFlags) =>
  ({ level, serverId, message }: McpLogEntry) => {
    if (level === 'warn' || verbose) say(`${serverId === null ? 'mcp' : `mcp ${serverId}`}: ${message}`);
  };

async function openMetrics(address: string, closers: (() => unknown)[]): Promise<Metrics> {
  const { metrics, url, close } = await serveMetrics(address, '--metrics');
  closers.push(close);
  say(`metrics at ${url}`);
  return metrics;
}

async function dryRun(flags: RunFlags, task: OpenTask): Promise<number> {
  const found = await task.check().catch((error) => blame(flags.wasm, error));
  const { backend, limits, servers } = found;
  if (flags.json) return succeed(`${JSON.stringify({ ok: true, backend, limits, servers })}\n`);
  const about = [
    `module   ${flags.wasm}: ${found.moduleBytes} bytes, ${found.module}`,
    `backend  ${backend}${task.host.file ? ` of ${task.host.file}` : ''}`,
    `limits   ${Object.entries(limits)
      .map(([name, value]) => `${name}=${value}`)
      .join(' ')}`,
    ...(task.mcp ? describeMcp(found) : []),
    'nothing was run',
  ];
  return succeed(`${about.join('\n')}\n`);
}

function describeMcp({ servers, exclusions }: TaskCheck): string[] {
  const left = exclusions.map(({ serverId, reason, detail }) => `         without ${serverId} (${reason}): ${detail}`);
  return [`mcp      ${servers.join(', ') || 'no server'}`, ...left];
}

function blame(file: string, error: unknown): never {
  if (!(error instanceof ModuleError)) throw error;
  throw new ModuleError(`${file}: ${withRemedy(error.message, error.problem)}`);
}

const withRemedy = (message: string, problem: ModuleProblem | null) =>
  problem ? `${message}; ${moduleRemedies[problem]}` : message;

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

const signalCodes: Partial<Record<string, number>> = { SIGTERM: exitCodes.terminated, SIGHUP: exitCodes.hungUp };
const signalCode = (signal: unknown) => signalCodes[String(signal)] ?? exitCodes.interrupted;

function report(flags: RunFlags, result: RunResult, interrupted: AbortSignal): number {
  const code = exitCode(result, interrupted);
  if (result.message !== null)
    say(result.reason === 'module' ? `${flags.wasm}: ${describe(result)}` : describe(result));
  if (result.stack) sayBlock(indent(result.stack));
  if (result.droppedLogLines > 0) say(`${result.droppedLogLines} log lines were dropped`);
  if (flags.verbose) say(`hostcalls ${JSON.stringify(result.hostcalls)}`);
  if (flags.json) print(`${JSON.stringify(toJson(result, code))}\n`);
  return code;
}

function describe(result: RunResult): string {
  return result.reason === 'trap'
    ? `the guest trapped: ${result.message}`
    : withRemedy(String(result.message), result.problem);
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
  const { loadMs, runMs, totalMs } = result.durations;
  return {
    exit_code: code,
    reason: result.reason,
    guest_exit_code: result.exitCode,
    message: result.message && withRemedy(result.message, result.problem),
    stack: result.stack === '' ? [] : result.stack.split('\n'),
    durations: { load_ms: loadMs, run_ms: runMs, total_ms: totalMs },
    hostcalls: result.hostcalls,
    model_calls: result.chat.iterations,
    tool_calls: result.chat.toolCalls,
    tokens: result.chat.usage,
    dropped_log_lines: result.droppedLogLines,
  };
}
