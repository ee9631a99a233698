import { dirname, resolve } from 'node:path';
import { BackendError, type ChatBackend } from '../../agent/chat/backend.ts';
import { ConfigError } from '../../config/config-error.ts';
import { loadTaskConfig } from '../../config/task-config.ts';
import type { McpLogEntry } from '../../run/registry-servers.ts';
import type { RunResult } from '../../run/run-guest.ts';
import type { TaskOptions, TaskRunOptions } from '../../run/run-options.ts';
import { type OpenTask, openTask, type TaskCheck } from '../../run/run-task.ts';
import { serveMetrics } from '../../run/serve-metrics.ts';
import { ModuleError, type ModuleProblem } from '../../runtime/abi/guest-module.ts';
import type { Metrics } from '../../server/telemetry/metrics.ts';
import type { Call } from '../command-table.ts';
import { moduleRemedies } from '../doctor/module-remedy.ts';
import { exitCodes, UsageError } from '../exit-codes.ts';
import { runExitCode, signalCode } from '../run-exit-code.ts';
import { auditsToStdout, openRunAudit } from './audit.ts';
import { type RunFlags, type RunFlagValues, runFlags } from './flags.ts';
import { journalOption } from './journal.ts';
import { print, say, sayBlock, waits } from './output.ts';
import { flagWords, registryOptions } from './registry-flags.ts';

/** `spear-run FILE.wasm`, and `spear run FILE.wasm`. */
export async function runModule(call: Call<RunFlagValues>): Promise<number> {
  try {
    return await run(await withModule(await resumed(runFlags(call))));
  } catch (error) {
    if (!isExpected(error)) throw error;
    for (const line of error.message.split('\n')) say(line);
    if (call.flags.json)
      print(`${JSON.stringify({ exit_code: exitCodes.usage, reason: 'usage', message: error.message })}\n`);
    return exitCodes.usage;
  }
}

/** Imported on demand. */
async function resumed(flags: RunFlags): Promise<RunFlags> {
  return flags.resume === undefined ? flags : (await import('./resume-flags.ts')).withRecordedFlags(flags);
}

/** A task file may name the module. @throws UsageError if it does not */
async function withModule(flags: RunFlags): Promise<RunFlags> {
  if (flags.wasm !== '') return flags;
  const file = String(flags.taskConfig);
  const { wasm } = await loadTaskConfig(file);
  if (wasm !== null) return { ...flags, wasm: resolve(dirname(file), wasm) };
  throw new UsageError(`${file} names no module; usage: spear-run FILE.wasm --task-config ${file}`);
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
      {
        ...taskOptions(flags, metrics),
        trace,
        threads: await openThreads(flags, closers),
        onModelEvent: flags.follow ? (await import('./follow.ts')).followModel : null,
        backend: await openModel(flags, closers),
      },
      flagWords,
    );
    closers.unshift(() => task.close());
    const audit = await openRunAudit(flags, task.host.audit, task.name, closers, say);
    const approvals = task.mcp === null ? {} : (await import('./approvals.ts')).openApprovals(flags, guestFds(flags));
    if (flags.dryRun) return await dryRun(flags, task);
    const interrupt = new AbortController();
    const release = onSignals(interrupt);
    const streams = await openStreams(flags, closers);
    const { signal } = interrupt;
    const own = { audit, journal: journalOption(flags), signal };
    const result = await task.run({ stdin: () => process.stdin, ...approvals, ...streams, ...own });
    release();
    return report(flags, result, interrupt.signal);
  } finally {
    for (const close of closers) await close();
  }
}

/** Guest output; goes to stderr where stdout has the result object, the audit log or stream frames. */
const guestFds = (flags: RunFlags) =>
  flags.json || auditsToStdout(flags) || flags.stream?.kind === 'stdio'
    ? { stdout: 2, stderr: 2 }
    : { stdout: 1, stderr: 2 };

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

/** Imported on demand. */
async function openThreads({ isolation }: RunFlags, closers: (() => unknown)[]): Promise<TaskOptions['threads']> {
  if (isolation === 'thread') return null;
  const { GuestThreads } = await import('../../runtime/host/guest-threads.ts');
  const threads = new GuestThreads({ threads: 1 });
  closers.push(() => threads.close());
  return threads;
}

/** Imported on demand. */
async function openTrace({ trace, dryRun }: RunFlags, closers: (() => unknown)[]): Promise<TaskOptions['trace']> {
  if (trace === undefined || dryRun) return null;
  const opened = (await import('./trace.ts')).openTrace(trace, say);
  closers.push(() => opened.close());
  return opened.write;
}

/** Imported on demand. */
async function openStreams(
  flags: RunFlags,
  closers: (() => unknown)[],
): Promise<Pick<TaskRunOptions, 'streams' | 'stdin'>> {
  if (flags.stream === undefined) return {};
  return (await import('./streams.ts')).openStreams(flags.stream, flags, closers, say);
}

/** A script is checked now, not when the guest first sends. */
async function openModel(
  { script: file, backend }: RunFlags,
  closers: (() => unknown)[],
): Promise<ChatBackend | string | undefined> {
  if (file === undefined) return backend;
  const { scriptedBackend } = await import('../../agent/chat/backends/open-backend.ts');
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
    'not run (--dry-run)',
  ];
  return succeed(`${about.join('\n')}\n`);
}

function describeMcp({ servers, exclusions }: TaskCheck): string[] {
  const left = exclusions.map(
    ({ serverId, reason, detail }) => `         excluded: ${serverId} (${reason}): ${detail}`,
  );
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

function report(flags: RunFlags, result: RunResult, interrupted: AbortSignal): number {
  const code = runExitCode(result, interrupted.reason);
  if (result.message !== null)
    say(result.reason === 'module' ? `${flags.wasm}: ${describe(result)}` : describe(result));
  if (result.stack) sayBlock(indent(result.stack));
  if (result.droppedLogLines > 0) say(`${result.droppedLogLines} log lines were dropped`);
  if (result.isolation.why !== null) say(`the guest ran on its own thread: ${result.isolation.why}`);
  if (flags.verbose) say(`hostcalls ${JSON.stringify(result.hostcalls)}`);
  if (flags.json) print(`${JSON.stringify(toJson(result, code))}\n`);
  return code;
}

function describe(result: RunResult): string {
  return result.reason === 'trap'
    ? `the guest trapped: ${result.message}`
    : withRemedy(String(result.message), result.problem);
}

const indent = (text: string) => text.replaceAll(/^/gm, '    ');

function toJson(result: RunResult, code: number) {
  const { loadMs, runMs, totalMs } = result.durations;
  return {
    exit_code: code,
    reason: result.reason,
    guest_exit_code: result.exitCode,
    message: result.message && withRemedy(result.message, result.problem),
    isolation: result.isolation.kind,
    isolation_reason: result.isolation.why,
    stack: result.stack === '' ? [] : result.stack.split('\n'),
    durations: { load_ms: loadMs, run_ms: runMs, total_ms: totalMs },
    hostcalls: result.hostcalls,
    model_calls: result.chat.iterations,
    tool_calls: result.chat.toolCalls,
    tokens: result.chat.usage,
    dropped_log_lines: result.droppedLogLines,
    ...(result.degraded.length === 0 ? {} : { degraded: result.degraded }),
    ...(result.traceId === null ? {} : { trace_id: result.traceId }),
  };
}
