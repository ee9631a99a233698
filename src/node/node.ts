import { join } from 'node:path';
import { ApprovalConnection } from '../agent/approvals/client.ts';
import { isLoopbackHost, parseListenAddress } from '../config/address.ts';
import { ConfigError } from '../config/config-error.ts';
import { componentCacheDirectory, nodeFiles } from '../config/directories.ts';
import type { CompiledHostConfig } from '../config/host/host-config.ts';
import { processEnvironment } from '../config/process-environment.ts';
import { openRunRegistry, type RegistryOptions, type RegistryWords, type RunRegistry } from '../run/open-registry.ts';
import { RegistryServers } from '../run/registry-servers.ts';
import { nodeId } from '../run/report-node.ts';
import { nodeOptions } from '../run/run-options.ts';
import { GuestThreads } from '../runtime/host/guest-threads.ts';
import { openAuditLog } from '../server/audit/log.ts';
import { noTrail } from '../server/audit/sms-trail.ts';
import { CallerLimits } from '../server/http/caller-limits.ts';
import { ServedCertificate } from '../server/http/served-certificate.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import { runRoutes } from '../server/routes/run-routes.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import type { Telemetry } from '../server/telemetry/telemetry.ts';
import { RunAttempts } from './attempt.ts';
import { removeCopies } from './backup/node-backup.ts';
import { refuseInterruptedRestore } from './backup/node-restore.ts';
import { Dispatcher } from './dispatcher.ts';
import { descriptorLimit, descriptorProblem } from './host-failure.ts';
import { nodeListener } from './http/node-listener.ts';
import { backupRoute, nodeTaskRoutes, operationRoutes, streamSessionRoute } from './http/node-routes.ts';
import { NodeAccess, RegistryIdentities } from './node-access.ts';
import { openNodeListeners } from './node-listeners.ts';
import { NodeMetrics } from './node-metrics.ts';
import { NodeStops } from './node-stops.ts';
import { openNodeTasks } from './node-tasks.ts';
import { ParkedRuns } from './parked-runs.ts';
import { RegistryReadiness } from './registry-readiness.ts';
import { openRunEngine, Retention } from './run-engine.ts';
import { reportRuns } from './run-reporter.ts';
import { RunStreams } from './run-streams.ts';
import { RunTraces } from './run-traces.ts';
import { TaskRuntimes } from './task-runtimes.ts';
import { TokenBudgets } from './token-budgets.ts';

export interface SpearletOptions {
  readonly host: CompiledHostConfig;
  /** Absolute path of the data directory. */
  readonly data: string;
  readonly listen: string;
  readonly slots: number;
  /** `nats://…` of the queue of a cluster; null: an embedded queue. */
  readonly queue: string | null;
  readonly taskDir: string | null;
  /** Whether an invalid task file prevents the start. */
  readonly strict: boolean;
  readonly registry: Pick<RegistryOptions, 'directory' | 'sms'>;
  readonly words: RegistryWords;
  readonly log: ServiceLog;
}

export interface RunningSpearlet {
  /** Base URL of the API. */
  readonly url: string;
  readonly files: ReturnType<typeof nodeFiles>;
  /** Reloads tokens, certificate, tasks and records of MCP servers. */
  reload(): Promise<void>;
  /** Drains the node and closes it. */
  close(): Promise<void>;
}

/** Time for responses in flight when the node shuts down. */
const CLOSE_GRACE_MS = 2_000;

/** State directory of servers that all tasks share. Not a valid namespace, so it cannot collide with one. */
const SHARED_SERVERS = '@node';

/** Task files are invalid, and `--strict` was given. */
export class TasksRefused extends Error {}

/**
 * Opens the data, loads the tasks, and serves. This is the composition of a node: every service is created here, once, and
 * closed in reverse order. Runs start last, after the listeners are open. A node that fails to start closes what it opened.
 * @throws ConfigError, TasksRefused, Error
 */
export async function startSpearlet(options: SpearletOptions): Promise<RunningSpearlet> {
  await using stack = new AsyncDisposableStack();
  const closing = <T extends Closable | null>(service: T): T => stack.adopt(service, close);
  const { host, log, slots } = options;
  const { name: node, pool, limits, streamModels } = host.node;
  const files = nodeFiles(options.data);
  const address = listenAddress(options.listen, host.node.tls !== null);
  const words = { cert: 'node.tls.cert', key: 'node.tls.key' };
  const certificate = closing(host.node.tls && new ServedCertificate(host.node.tls, log, words));
  const scheme = certificate === null ? 'http' : 'https';
  const fewDescriptors = descriptorProblem(descriptorLimit(), slots);
  if (fewDescriptors !== null) log('warn', 'descriptors', { message: fewDescriptors });
  refuseInterruptedRestore(files);
  const engine = await openRunEngine({ host, files, queue: options.queue, log });
  const { queue, journals } = engine;
  closing(queue);
  const registry = closing(await openRegistry(options));
  const platform = registry?.platform ?? null;
  const identities =
    platform && new RegistryIdentities(platform.identities, (message) => log('error', 'people_unknown', { message }));
  const access = new NodeAccess(options.data, host.node.submitters, identities);
  for (const file of access.created) log('info', 'token_created', { file });
  const componentCache = componentCacheDirectory(processEnvironment);
  const tasks = closing(
    await openNodeTasks({
      ...{ files, platform, queue, log, directory: options.taskDir, firstTasksMs: host.mcp.firstSnapshotMs },
      admission: { backends: new Set(host.backends.keys()), componentCache, pool },
    }),
  );
  const readiness = new RegistryReadiness(registry, tasks);
  removeCopies(files);
  const problems = await tasks.load();
  if (options.strict && problems.length > 0) throw new TasksRefused('--strict rejects the files above');

  const audit = closing(await openAudit(host));
  const metrics = closing(new NodeMetrics());
  const approvals = closing(openApprovals(options, registry));
  const stops = new NodeStops(registry?.cache.stops ?? null, nodeId(node));
  /** Stops that apply on every node: a shared queue accepts runs that this node may not start. */
  const stopsOfAllNodes = new NodeStops(registry?.cache.stops ?? null, '');
  const parked = closing(new ParkedRuns({ queue, pool, approvals, stops, log }));
  const servers = closing(await openServers(options, registry, { stateDir: files.servers, metrics: metrics.guests }));
  const telemetry = closing(await openTelemetryOf(options, metrics));
  const tracer = telemetry?.tracer ?? null;
  const runtimes = closing(
    new TaskRuntimes({
      ...{
        host,
        modules: tasks,
        servers,
        stateDir: files.servers,
        audit,
        metrics: metrics.guests,
        node,
        approvals,
        log,
      },
    }),
  );
  const threads = closing(new GuestThreads({ namespaceThreads: limits.namespace_threads }));
  const origins = { scheme, hosts: [address.host, ...host.node.allowedHosts], origins: [] } as const;
  const shed = (reason: string) => metrics.shed.add(1, { reason });
  const callers = new CallerLimits({ limits, onShed: shed });
  const streams = new RunStreams({ queue, node, access, origins, callers, log });
  const attempts = new RunAttempts({
    ...{ limits, streamModels, componentCache, engine, tasks, readiness, runtimes, metrics: metrics.guests },
    ...{ traces: tracer && new RunTraces(tracer), threads, streams, approvals, parked, stops, log },
    budgets: new TokenBudgets(queue, host.node.budgets),
  });
  const reporter = closing(reportRuns(registry, { queue, tasks: tasks.store, journals, node, log }));
  const dispatcher = new Dispatcher({
    ...{ queue, node, pool, slots, stops, log },
    drainMs: limits.drain_ms,
    runsPerCaller: limits.runs_per_caller,
    leaseMs: limits.lease_ms,
    concurrency: (namespace, name) =>
      readiness.mayStart({ namespace, name }) ? (tasks.store.find({ namespace, name })?.live.concurrency ?? slots) : 0,
    attempt: (claim, signal) => {
      reporter?.add(claim.run);
      return attempts.attempt(claim, signal);
    },
    onParked: (run, requests) => parked.parked(run, requests),
  });
  metrics.observe(() => ({
    queue: queue.facts(),
    slots,
    running: dispatcher.running,
    starts: dispatcher.starts,
    certificateExpiresAtMs: certificate?.expiresAtMs ?? null,
  }));

  const shutdown = new AbortController();
  const serviceAudit = audit?.forService() ?? noTrail;
  const routes = [
    ...runRoutes({
      backends: () => ({ runs: queue, journals, events: engine.allEvents }),
      tasks: readiness,
      withdraw: (_, namespace, id) => parked.left(namespace, id),
      isEnding: () => dispatcher.isDraining,
      trail: serviceAudit,
      stops: async () => (queue.isShared ? stopsOfAllNodes : stops),
      ...{ tracer, log },
    }),
    backupRoute(engine.backup && { files, runs: { backup: engine.backup }, tasks: tasks.store }, serviceAudit, log),
    streamSessionRoute(queue, streams),
    ...nodeTaskRoutes(tasks.requests, tasks.elsewhere),
  ];
  const notReady = () =>
    dispatcher.isDraining
      ? 'the node is shutting down'
      : (queue.problem() ?? dispatcher.problem() ?? readiness.problem());
  const { max_connections: max, max_connections_per_peer: maxPerPeer } = limits;
  const listeners = await openNodeListeners(
    address,
    certificate?.tls ?? null,
    files,
    { max, maxPerPeer, gate: null, onRefused: () => shed('connections') },
    nodeListener({
      routes: [...routes, ...operationRoutes({ metrics, notReady, routes })],
      ...{ access, callers, metrics, tracer, log, origins },
      shutdown: shutdown.signal,
    }),
    (req, socket, head) => streams.upgrade(req, socket, head),
  );
  if (certificate !== null) certificate.onRenewed = (renewed) => listeners.useTls(renewed);
  const retention = new Retention(queue, journals, limits.retention_hours, log);
  dispatcher.start();
  // Runs whose task or tools were unknown may start now.
  tasks.onChange(() => dispatcher.fill());
  registry?.cache.onPolicyChange(() => dispatcher.fill());

  const services = stack.move();
  const shutDown = async () => {
    await dispatcher.drain(limits.drain_ms);
    shutdown.abort();
    streams.close();
    await listeners.close(CLOSE_GRACE_MS);
    await retention.close();
    await services.disposeAsync();
  };
  let closed: Promise<void> | null = null;
  return {
    url: listeners.url,
    files,
    reload: async () => {
      access.reload();
      certificate?.reload();
      await tasks.load();
      await registry?.reload?.();
    },
    close() {
      closed ??= shutDown();
      return closed;
    },
  };
}

interface Closable {
  close(): unknown;
}

const close = async (service: Closable | null): Promise<void> => void (await service?.close());

function listenAddress(text: string, hasTls: boolean) {
  const address = parseListenAddress(text);
  if (address === null) throw new ConfigError(`--listen ${text}: expected HOST:PORT`);
  if (hasTls || isLoopbackHost(address.host)) return address;
  throw new ConfigError(
    `--listen ${text}: the address is reachable from other hosts, and this node has no TLS: set [node.tls] cert and key, or listen on loopback`,
  );
}

/** Null: no registry is configured; tasks with MCP get no servers. */
async function openRegistry({ host, registry, words, log }: SpearletOptions): Promise<RunRegistry | null> {
  if (registry.directory === undefined && registry.sms === undefined) return null;
  const say = (message: string) => log('warn', 'registry', { message });
  return openRunRegistry({ ...nodeOptions(host), ...registry, required: false }, { words, say, profiles: true });
}

/** One connection pool for all tasks; the records decide which connections are shared. */
async function openServers(
  { host }: SpearletOptions,
  registry: RunRegistry | null,
  { stateDir, metrics }: { readonly stateDir: string; readonly metrics: Metrics },
): Promise<RegistryServers | null> {
  if (registry === null) return null;
  const { name, limits } = host.node;
  const ofNode = { stateDir: join(stateDir, SHARED_SERVERS), limits: { maxSubprocesses: limits.max_subprocesses } };
  return RegistryServers.open({ ...nodeOptions(host), ...ofNode, metrics }, registry, name);
}

/** Loaded only if traces or metrics are exported. */
async function openTelemetryOf({ host, log }: SpearletOptions, metrics: NodeMetrics): Promise<Telemetry | null> {
  if (host.telemetry === null) return null;
  const { openTelemetry } = await import('../server/telemetry/telemetry.ts');
  const telemetry = openTelemetry(host.telemetry, 'spearlet', (message) => log('warn', 'telemetry', { message }));
  if (metrics.guests.collect !== null) telemetry.pushMetrics(metrics.guests.collect);
  return telemetry;
}

/** Null: calls that need an approval are denied. @throws ConfigError if approvals are required and no registry is configured */
function openApprovals({ host, words, log }: SpearletOptions, registry: RunRegistry | null): ApprovalConnection | null {
  const { approve, name } = host.node;
  const service = registry?.approvals ?? null;
  if (approve === 'sms' && service === null) {
    throw new ConfigError(`node.approve = "sms": no registry is configured; set one with ${words.sms}`);
  }
  if (approve === 'deny' || service === null) return null;
  return new ApprovalConnection(service(name), (message) => log('warn', 'approvals', { message }));
}

async function openAudit({ audit }: CompiledHostConfig) {
  const { file: path, onFailure: failureMode, key: readKey, ...config } = audit;
  if (path === null) return null;
  return openAuditLog({ path, failureMode, key: readKey?.().reveal() ?? null, ...config });
}
