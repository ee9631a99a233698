import { resolve } from 'node:path';
import { BackendSet } from '../../agent/chat/backends/open-backend.ts';
import { profileOf } from '../../agent/policy/record-checks.ts';
import { ConfigError } from '../../config/config-error.ts';
import { componentCacheDirectory } from '../../config/directories.ts';
import type { CompiledHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { findRegistryAdmin, isOwnRegistryServing } from '../../config/registry/registry-endpoint.ts';
import { withDefaultBackend } from '../../run/choose-backend.ts';
import { compileLimits } from '../../runtime/port/limits.ts';
import { describePrepared, readModule } from '../../runtime/wasm/prepare.ts';
import { ApiClient, RequestError, registryPeer } from '../api-client.ts';
import { exitCodes, spearExitCodes } from '../exit-codes.ts';
import { flagWords } from '../run/registry-flags.ts';
import { TOKENS_PATH } from '../spear/command.ts';
import { diagnoseBackend } from './diagnose-backend.ts';
import { diagnoseModule } from './diagnose-module.ts';
import { diagnoseRegistry, diagnoseTokens, type ListedToken } from './diagnose-registry.ts';
import { diagnoseServers } from './diagnose-servers.ts';
import { approvalRules, type DiagnosedTask, diagnoseHost, diagnoseTask } from './diagnose-task.ts';
import { bad, type Finding, isBad, ok, reportJson, reportText, skipped, summaryOf } from './finding.ts';
import { type DoctorFlags, doctorFlagsOf } from './flags.ts';

const OLDEST_NODE = 24;

/** `spear doctor`: checks everything between a task and its tools, without running the guest. */
export async function doctorCommand(call: Parameters<typeof doctorFlagsOf>[0]): Promise<number> {
  const flags = doctorFlagsOf(call);
  const interrupt = new AbortController();
  let interruptedCode: number | null = null;
  const onSignal = (signal: NodeJS.Signals) => {
    interruptedCode = signal === 'SIGINT' ? exitCodes.interrupted : exitCodes.terminated;
    interrupt.abort(new Error('interrupted'));
  };
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  try {
    const findings = await examine(flags, interrupt.signal);
    if (interruptedCode !== null) {
      // An interrupted step would look like a fault of the server or the model.
      process.stderr.write('spear: interrupted; incomplete findings are not shown\n');
      return interruptedCode;
    }
    const wrong = findings.some(isBad);
    const style = { colours: process.stdout.isTTY === true && !processEnvironment.NO_COLOR };
    process.stdout.write(
      flags.json ? reportJson(findings, { ok: !wrong }) : reportText(findings, summaryOf(findings), style),
    );
    return wrong ? spearExitCodes.failed : spearExitCodes.ok;
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

async function examine(flags: DoctorFlags, signal: AbortSignal): Promise<Finding[]> {
  const task = await diagnoseTask(flags);
  const module = await diagnoseModule(flags.wasm, readModule(flags.wasm), {
    limits: compileLimits(task.task?.limits ?? {}),
    allowUnknownImports: flags.allowUnknownImports,
    needsTools: task.policy !== null,
    componentCache: componentCacheDirectory(processEnvironment),
    signal: AbortSignal.any([signal, AbortSignal.timeout(flags.timeoutMs)]),
    describe: describePrepared,
  });
  const { host, finding: hostFinding } = await diagnoseHost(flags);
  return [
    diagnoseNode(process.versions.node, typeof WebAssembly.Suspending === 'function'),
    module,
    task.finding,
    ...(hostFinding === null ? [] : [hostFinding]),
    ...(await examineServers(flags, task, host, signal)),
    ...(await examineTokens(flags, signal)),
    ...(await examineModel(flags, task, host, signal)),
  ];
}

export function diagnoseNode(version: string, hasJspi: boolean): Finding {
  const text = `Node ${version}, ${hasJspi ? 'with' : 'without'} JSPI`;
  const fix = `use Node ${OLDEST_NODE} or newer, without flags that disable WebAssembly features`;
  if (Number.parseInt(version, 10) < OLDEST_NODE) return bad('node', text, { cause: 'old_node', fix });
  return hasJspi ? ok('node', text) : bad('node', text, { cause: 'no_jspi', fix });
}

async function examineServers(
  flags: DoctorFlags,
  { policy, taskRules }: DiagnosedTask,
  host: CompiledHostConfig | null,
  signal: AbortSignal,
): Promise<Finding[]> {
  if (policy === null) return [skipped('registry', 'registry and servers: not checked, the task does not enable MCP')];
  if (host === null) return [skipped('registry', 'registry and servers: not checked, the host config is invalid')];
  const { finding, registry, unusable } = await diagnoseRegistry(flags, host, policy.task);
  if (registry === null) return [finding, skipped('server', 'servers: not checked')];
  try {
    const { connect, timeoutMs } = flags;
    const approvals = approvalRules(host, taskRules);
    const profile = profileOf(registry.cache.view(), policy.task);
    const question = {
      registry,
      unusable,
      host,
      policy: { ...policy, profile, approvals },
      connect,
      timeoutMs,
      signal,
    };
    if (finding.status === 'bad') return [finding, skipped('server', 'servers: not checked')];
    if (!policy.session.enabled) return [finding, skipped('server', 'servers: not checked, the session disables MCP')];
    return [finding, ...(await diagnoseServers(question))];
  } finally {
    await registry.close();
  }
}

/** Tokens of the registry whose admin API the environment names; only an admin can list them. */
async function examineTokens({ registry, timeoutMs }: DoctorFlags, signal: AbortSignal): Promise<Finding[]> {
  const env = processEnvironment;
  if (registry.sms === undefined || !(env.SPEAR_SMS || isOwnRegistryServing(env))) return [];
  try {
    const client = new ApiClient(findRegistryAdmin({}, env), registryPeer, timeoutMs);
    const { value } = await client.request('GET', TOKENS_PATH, { signal });
    return [diagnoseTokens((value as unknown as { tokens: readonly ListedToken[] }).tokens)];
  } catch (error) {
    if (!(error instanceof RequestError || error instanceof ConfigError)) throw error;
    return [skipped('tokens', `tokens of the registry: not checked, ${error.message}`)];
  }
}

async function examineModel(
  flags: DoctorFlags,
  { task }: DiagnosedTask,
  host: CompiledHostConfig | null,
  signal: AbortSignal,
): Promise<Finding[]> {
  if (host === null || task === null) return [skipped('backend', 'backend and model: not checked')];
  let chosen: CompiledHostConfig;
  try {
    chosen = chooseBackend(host, flags, task.backend);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const fix = 'use a backend of the host config';
    return [bad('backend', error.message, { cause: 'unknown_backend', fix })];
  }
  const compiled = chosen.backends.get(chosen.defaultBackend);
  if (compiled === undefined) return [skipped('backend', 'no backend')];
  const backends = new BackendSet(chosen);
  try {
    return await diagnoseBackend({
      compiled,
      open: () => backends.get(),
      ask: flags.askModel,
      signal: AbortSignal.any([signal, AbortSignal.timeout(flags.timeoutMs)]),
    });
  } finally {
    await backends.close();
  }
}

/** The backend that a run with these flags would use. */
function chooseBackend(host: CompiledHostConfig, flags: DoctorFlags, taskBackend: string | null): CompiledHostConfig {
  if (flags.script !== undefined) {
    const script = { kind: 'scripted', name: 'script', script: resolve(flags.script) } as const;
    return { ...host, backends: new Map([[script.name, script]]), defaultBackend: script.name };
  }
  if (flags.backend !== undefined) return withDefaultBackend(host, { name: flags.backend, from: flagWords.backend });
  return withDefaultBackend(
    host,
    taskBackend === null ? null : { name: taskBackend, from: `${flags.taskConfig}: backend` },
  );
}
