import { basename } from 'node:path';
import { ModuleError, type ModuleProblem } from '../../abi/guest-module.ts';
import { version } from '../../base/version.ts';
import { BackendError } from '../../chat/backend.ts';
import { BackendSet } from '../../chat/backends/open-backend.ts';
import { ConfigError } from '../../config/config-error.ts';
import { type CompiledHostConfig, loadHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { loadTaskConfig, type TaskConfig } from '../../config/task/task-config.ts';
import { moduleRemedies } from '../../doctor/module-remedy.ts';
import { guestNotices } from '../../load/guest-notices.ts';
import { prepare } from '../../load/prepare.ts';
import { ToolEvents } from '../../mcp/tool-events.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import { compileLimits, type Limits } from '../../protocol/limits.ts';
import { type RunResult, runGuest } from '../../run/run-guest.ts';
import { newRunId } from '../../run/run-id.ts';
import { exitCodes } from '../exit-codes.ts';
import { UsageError } from '../usage-error.ts';
import { auditsToStdout, openRunAudit } from './audit.ts';
import { chooseBackend } from './backend.ts';
import { parseRunFlags, type RunFlags } from './flags.ts';
import { runHelp } from './help.ts';
import type { RunMcp, RunMcpOptions } from './mcp.ts';
import { componentCache, describePrepared, readModule } from './module.ts';
import { print, say, sayBlock, waits } from './output.ts';
import type { RunTrace } from './trace.ts';
import { sayNoEffect } from './unused-registry.ts';

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
    error instanceof ConfigError ||
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
  // Read while the rest is being set up; a failure is reported when the bytes are needed.
  const wasm = readModule(flags.wasm);
  wasm.catch(() => {});
  const task = await loadTaskConfig(flags.taskConfig);
  const limits = compileLimits({ ...task.limits, ...flags.limits });
  const host = chooseBackend(
    await loadHostConfig({ file: flags.config, env: processEnvironment }),
    flags,
    task.backend,
  );
  const backends = new BackendSet(host, {
    waiting: waits.waiting,
    onStubUsed: () => say('no model is configured, a stub answers; see spear-run --help, "The model"'),
  });
  const id = newRunId();
  const events = new ToolEvents();
  const closers: (() => unknown)[] = [() => backends.close()];
  try {
    // A script named on the command line is checked now, not when the guest first sends.
    if (flags.script !== undefined || flags.dryRun) await backends.get();
    const audit = await openRunAudit(flags, host.audit, task.name, closers, say);
    const metrics = flags.metrics === undefined || flags.dryRun ? null : await openMetrics(flags.metrics, closers);
    const trace = await openTrace(flags, id, closers);
    const counted = metrics?.mcp.trail(audit, task.name) ?? audit;
    const mcp = await openMcp(flags, task, { host, run: id, audit: counted, events, metrics, limits });
    if (mcp) closers.unshift(() => mcp.close());
    const args = [basename(flags.wasm), ...task.args, ...flags.guestArgs];
    if (flags.dryRun) return await dryRun(flags, args, wasm, limits, host, mcp);
    const interrupt = new AbortController();
    const release = onSignals(interrupt);
    audit.write(id, { event: 'guest.started', module: basename(flags.wasm) });
    const result = await runGuest({
      wasm,
      args,
      env: { ...task.env, ...flags.env },
      limits,
      backend: async (name) => trace(await backends.get(name)),
      output: flags.json || auditsToStdout(flags) ? { stdout: 2, stderr: 2 } : { stdout: 1, stderr: 2 },
      stdin: () => mcp?.stdin() ?? process.stdin,
      verbose: flags.verbose,
      allowUnknownImports: flags.allowUnknownImports,
      componentCache: componentCache(flags),
      signal: interrupt.signal,
      run: id,
      mcp: mcp?.guest ?? null,
      audit,
      events,
      metrics,
      onNotice: say,
    });
    release();
    const { reason: status, exitCode, durations } = result;
    audit.write(id, { event: 'guest.ended', status, exit_code: exitCode, duration_ms: durations.total_ms });
    return report(flags, result, interrupt.signal);
  } finally {
    for (const close of closers) await close();
  }
}

const speaksOfMcp = (task: TaskConfig) => Object.keys(task.config).some((key) => key.startsWith('mcp.'));

/** Loaded only for a task that speaks of MCP: the libraries behind it cost more than a small guest's whole run. */
async function openMcp(
  flags: RunFlags,
  task: TaskConfig,
  shared: Pick<RunMcpOptions, 'host' | 'run' | 'audit' | 'events' | 'metrics' | 'limits'>,
): Promise<RunMcp | null> {
  if (!speaksOfMcp(task)) {
    sayNoEffect(flags, say);
    return null;
  }
  const { openRunMcp } = await import('./mcp.ts');
  return openRunMcp({ ...shared, flags, taskName: task.name, config: task.config, say });
}

/** Loaded only where it is asked for. */
async function openTrace(
  { trace, dryRun }: RunFlags,
  run: string,
  closers: (() => unknown)[],
): Promise<RunTrace['wrap']> {
  if (trace === undefined || dryRun) return (backend) => backend;
  const opened = (await import('./trace.ts')).openTrace(trace, run, say);
  closers.push(() => opened.close());
  return opened.wrap;
}

async function openMetrics(address: string, closers: (() => unknown)[]): Promise<Metrics> {
  const { serveMetrics } = await import('./metrics-server.ts');
  const served = await serveMetrics(address, say);
  closers.push(() => served.close());
  return served.metrics;
}

async function dryRun(
  flags: RunFlags,
  args: readonly string[],
  wasm: Promise<Uint8Array>,
  limits: Limits,
  host: CompiledHostConfig,
  mcp: RunMcp | null,
): Promise<number> {
  const bytes = await wasm.catch((error) => blame(flags.wasm, error));
  const { allowUnknownImports } = flags;
  const options = { limits, allowUnknownImports, componentCache: componentCache(flags), onNotice: say };
  const prepared = await prepare(bytes, options).catch((error) => blame(flags.wasm, error));
  for (const notice of guestNotices(prepared, args)) say(notice);
  const about = [
    `module   ${flags.wasm}: ${bytes.byteLength} bytes, ${describePrepared(prepared)}`,
    `backend  ${host.defaultBackend}${host.file ? ` of ${host.file}` : ''}`,
    `limits   ${Object.entries(limits)
      .map(([name, value]) => `${name}=${value}`)
      .join(' ')}`,
    ...(mcp ? describeMcp(mcp) : []),
    'nothing was run',
  ];
  const servers = mcp?.effective.serverIds ?? [];
  if (flags.json) return succeed(`${JSON.stringify({ ok: true, backend: host.defaultBackend, limits, servers })}\n`);
  return succeed(`${about.join('\n')}\n`);
}

function describeMcp({ effective: { serverIds, exclusions } }: RunMcp): string[] {
  const left = exclusions.map(({ serverId, reason, detail }) => `         without ${serverId} (${reason}): ${detail}`);
  return [`mcp      ${serverIds.join(', ') || 'no server'}`, ...left];
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
  return {
    exit_code: code,
    reason: result.reason,
    guest_exit_code: result.exitCode,
    message: result.message && withRemedy(result.message, result.problem),
    stack: result.stack === '' ? [] : result.stack.split('\n'),
    durations: result.durations,
    hostcalls: result.hostcalls,
    model_calls: result.chat.iterations,
    tool_calls: result.chat.tool_calls,
    tokens: result.chat.usage,
    dropped_log_lines: result.droppedLogLines,
  };
}
