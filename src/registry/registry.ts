import { Code, ConnectError } from '@connectrpc/connect';
import { ApprovalQueue } from '../agent/approvals/service.ts';
import { stopOfRun } from '../agent/policy/stops.ts';
import { errorText } from '../base/errors.ts';
import type { RegistryConfig } from '../config/registry/registry-config.ts';
import { noTrail, openSmsTrail, type SmsTrail } from '../server/audit/sms-trail.ts';
import { egressOf } from '../server/egress/egress.ts';
import { CallerLimits } from '../server/http/caller-limits.ts';
import { httpListener } from '../server/http/http-listener.ts';
import { HeldBytes } from '../server/http/http-reply.ts';
import type { OriginPolicy } from '../server/http/origin-check.ts';
import { PeerGate } from '../server/http/peer-gate.ts';
import type { Route } from '../server/http/route.ts';
import { Caller } from '../server/identity/caller.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import { openStore } from '../server/store/open-store.ts';
import { type RegistryDatabase, StoreError } from '../server/store/store.ts';
import type { Telemetry } from '../server/telemetry/telemetry.ts';
import { auditedProfiles, auditedStops, auditedStore, auditedTokens } from './audit/audited-store.ts';
import { ConsoleState } from './console-state.ts';
import { type Credentials, openCredentials } from './credentials.ts';
import { grpcListener } from './grpc/grpc-listener.ts';
import { CallLimits } from './grpc/grpc-server.ts';
import { ServingState } from './grpc/health-service.ts';
import { WatcherCount } from './grpc/kind-reads.ts';
import { allServices, methodNeeds } from './grpc/services.ts';
import { openListeners } from './listeners.ts';
import { defaultReportLimits, NodeReports } from './node-reports.ts';
import { RegistryMetrics } from './registry-metrics.ts';
import { DirectoryReloader, type ReloadResult } from './reload.ts';
import { allRoutes } from './routes/all-routes.ts';
import { registryAuth } from './routes/registry-auth.ts';
import type { TestServer } from './routes/servers-routes.ts';
import { defaultRunReportsLimits, RunReports } from './run-reports.ts';
import { openRegistryRuns, type RegistryRuns, registryRunRoutes } from './runs/registry-runs.ts';
import type { ServerTestOptions } from './server-test.ts';
import { openRegistryTasks } from './tasks/open-tasks.ts';

/** Statuses of requests whose caller has no token, the wrong token, or an unknown Host. */
const denials: ReadonlySet<number> = new Set([401, 403, 421]);

export interface RegistryDeps {
  readonly log: ServiceLog;
  /** Reads the config again, for what of it may change meanwhile. @throws ConfigError @default it stays as it is */
  readonly readAgain?: () => RegistryConfig;
  /** Only used where the config allows testing servers here. */
  readonly serverTest: Pick<ServerTestOptions, 'stateDir' | 'path' | 'secrets'>;
}

export interface RunningRegistry {
  /** `HOST:PORT`. */
  readonly grpc: string;
  /** With scheme. */
  readonly http: string;
  /** What it serves over HTTP, and what each asks of its caller. */
  readonly routes: readonly Omit<Route, 'run'>[];
  /** Reads the tokens, the certificate, the rules about approvals and the directory again. Null: there is no directory. */
  reload(): Promise<ReloadResult | null>;
  /** Ends within the configured time, whatever clients do. */
  close(): Promise<void>;
}

/** The directory is not what a strict start accepts. */
export class DirectoryRefused extends Error {
  constructor(refusal: string) {
    super(refusal);
    this.name = 'DirectoryRefused';
  }
}

/** Opens the store, loads the directory, and serves both protocols. */
export async function startRegistry(config: RegistryConfig, deps: RegistryDeps): Promise<RunningRegistry> {
  const store = await openStore(config, deps.log);
  let trail = noTrail;
  let credentials: Credentials | null = null;
  let submitted: RegistryRuns | null = null;
  try {
    trail = openSmsTrail(config.audit, deps.log);
    credentials = await openCredentials(config, store, deps.log);
    submitted = await openRegistryRuns(config.queue, { maxRuns: config.limits.max_queued, log: deps.log });
    return await serve(config, deps, store, credentials, submitted, trail);
  } catch (error) {
    await submitted?.close();
    await credentials?.close();
    await store.close();
    await trail.close();
    throw error;
  }
}

async function serve(
  config: RegistryConfig,
  deps: RegistryDeps,
  kept: RegistryDatabase,
  credentials: Credentials,
  submitted: RegistryRuns,
  trail: SmsTrail,
): Promise<RunningRegistry> {
  const { log, serverTest } = deps;
  const store = auditedStore(kept.servers, trail);
  const profiles = auditedProfiles(kept.profiles, trail);
  const tokens = auditedTokens(kept.tokens, trail);
  const stops = auditedStops(kept.stops, trail);
  const { limits, strict } = config;
  const egress = egressOf(config.egress, 'listed');
  const metrics = new RegistryMetrics(Date.now());
  const telemetry = await openTelemetryOf(config, log);
  const serving = new ServingState();
  const shutdown = new AbortController();
  const reports = new NodeReports({
    ...defaultReportLimits,
    expiresAfterMs: limits.node_expiry_ms,
    maxNodes: limits.max_nodes,
  });
  const runs = new RunReports({
    ...defaultRunReportsLimits,
    expiresAfterMs: limits.node_expiry_ms,
    maxNodes: limits.max_nodes,
  });
  const tasks = openRegistryTasks(config, kept, trail, log);
  const reloader =
    config.registryDir === null
      ? null
      : new DirectoryReloader({
          store,
          profiles,
          directory: config.registryDir,
          strict,
          allowMassRemoval: config.allowMassRemoval,
          metrics,
          trail,
          log,
        });
  for (const problem of kept.warnings) log('error', 'store', { problem });
  if (reloader !== null) await firstLoad(reloader, config, log);
  const problems = await tasks.load(Caller.process('start'));
  if (strict && problems.length > 0) throw new DirectoryRefused('--strict rejects the task files above');

  const held = new HeldBytes({ max: limits.max_answer_bytes, maxPerPeer: limits.max_answer_bytes_per_peer });
  const gate = new PeerGate({
    connectionsPerSecond: limits.connections_per_second,
    requestsPerSecond: limits.anonymous_calls_per_second,
  });
  const calls = new CallLimits({
    max: limits.max_calls,
    maxPerPeer: limits.max_calls_per_peer,
    maxAnonymous: limits.max_anonymous_calls,
    maxAnonymousPerPeer: limits.max_anonymous_calls_per_peer,
    mayRequest: (peer) => gate.mayRequest(peer),
  });
  const watchers = new WatcherCount(limits.max_watchers);
  const approvals = new ApprovalQueue(kept.approvals, {
    rules: config.approverRules,
    hasNames: config.auth,
    personOf: (name) => (credentials.named.isRevoked(name) ? null : credentials.named.personOf(name)),
    waitMs: limits.approval_wait_ms,
    grantMs: limits.approval_grant_ms,
    keptGrantMs: limits.approval_kept_grant_ms,
    keepMs: limits.approval_keep_ms,
    maxKept: limits.max_approvals,
    maxWaiting: limits.max_waiting_approvals,
    trail,
    metrics,
  });
  await approvals.start();
  const gauges = async () => {
    const { revision, records } = await store.list();
    return {
      revision,
      servers: records.length,
      watchers: watchers.open,
      nodes: reports.count,
      node_processes: reports.processCount,
      writable: kept.writeProblem() === null ? 1 : 0,
      approvals_waiting: approvals.waiting,
      runs: submitted.facts(),
      certificateExpiresAtMs: credentials.certificate?.expiresAtMs ?? null,
    };
  };
  telemetry?.pushMetrics(async () => metrics.collect(await gauges()));
  const { access, certificate } = credentials;
  const tls = certificate?.tls ?? null;
  const common = {
    access,
    slowReaderMs: limits.slow_reader_ms,
    shutdown: shutdown.signal,
    metrics,
    tracer: telemetry?.tracer ?? null,
    trail,
    log,
  };
  const { book, blobs, requests: taskRequests, store: taskStore } = tasks;
  const shared = { store, profiles, stops, approvals, reports, runs, serving, strict, metrics, log, taskRequests };
  const forServices = { heartbeatMs: limits.heartbeat_ms, watchers, held, access, taskStore, blobs, tasks: book };
  // Whoever can reach a node is not whoever can reach a registry that lets in everybody.
  const oidc = config.auth ? credentials.oidc : null;
  const services = allServices({ ...shared, ...forServices, oidc });
  const testServer: TestServer = async (record, signal) =>
    (await import('./server-test.ts')).testServer(record, { ...serverTest, egress, stdio: 'sandboxed', signal });
  const runRoutes = registryRunRoutes({
    backends: submitted.backends,
    tasks: book,
    withdraw: (caller, namespace, run) => approvals.withdrawAll(caller, namespace, run, 'the run was cancelled'),
    isEnding: () => !serving.isServing,
    stops: async () => {
      const active = new Map((await stops.list()).records.map((stop) => [stop.stop_id, stop]));
      return { of: (run) => stopOfRun(active, run, '') };
    },
    ...{ tracer: common.tracer, trail, log },
  });
  const routes = allRoutes({
    ...shared,
    runRoutes,
    queueAvailable: () => submitted.isAvailable(),
    tokens,
    named: credentials.named,
    uses: credentials.uses,
    sessions: credentials.sessions,
    oidc: credentials.oidc,
    hasAuth: config.auth,
    scheme: tls === null ? 'http' : 'https',
    trail,
    kept,
    dataFile: config.files.data,
    gauges,
    reloader,
    testServer: config.allowServerTest ? testServer : null,
    console: new ConsoleState(
      { servers: store, profiles, approvals: approvals.store, people: tokens, stops },
      reports,
      runs,
      shutdown.signal,
    ),
    trailFile: config.audit?.file ?? null,
  });
  const origins: OriginPolicy = {
    scheme: tls === null ? 'http' : 'https',
    hosts: [config.http.host, ...config.allowedHosts],
    origins: config.allowedOrigins,
  };
  const callers = new CallerLimits({ limits, onShed: (reason) => metrics.shed.add(1, { protocol: 'http', reason }) });
  const handlers = {
    grpc: grpcListener({ ...common, calls, needs: methodNeeds, routes: services }),
    http: httpListener({
      ...{ server: 'registry', routes, origins, callers, held, shutdown: shutdown.signal },
      ...{ slowReaderMs: limits.slow_reader_ms, tracer: common.tracer, log },
      authenticate: registryAuth({ access, gate, scheme: origins.scheme, metrics }),
      onRequest: (method, status) => metrics.requests.add(1, { protocol: 'http', method, code: String(status) }),
      onShed: () => metrics.shed.add(1, { protocol: 'http', reason: 'too_many' }),
      audit: {
        served: (caller, status) => trail.write({ event: 'sms.served', ...caller, code: String(status) }),
        refused: (caller, { status, kind: reason }, isChange) =>
          trail.refused(caller, { code: String(status), reason, isDenial: denials.has(status) }, isChange),
      },
    }),
  };
  const listeners = await openListeners(
    config,
    tls,
    handlers,
    gate,
    (protocol) => metrics.shed.add(1, { protocol, reason: 'flooding' }),
    log,
  );
  if (certificate !== null) certificate.onRenewed = (renewed) => listeners.useTls(renewed);
  serving.become('serving');
  const { epoch, revision, records } = await store.list();
  const bound = { grpc: listeners.grpc.authority, http: listeners.http.url, auth: config.auth };
  trail.write({ event: 'sms.started', epoch, revision, servers: records.length, ...bound });

  let closing: Promise<void> | null = null;
  const close = async () => {
    serving.become('stopping');
    shutdown.abort(new ConnectError('the registry is shutting down', Code.Unavailable));
    await listeners.close(limits.shutdown_ms);
    await submitted.close();
    approvals.close();
    await tasks.close();
    await telemetry?.close();
    await credentials.close();
    await kept.close();
    trail.write({ event: 'sms.ended' });
    await trail.close();
  };
  return {
    grpc: listeners.grpc.authority,
    http: listeners.http.url,
    routes,
    reload: async () => {
      credentials.reload();
      await tasks.load(Caller.process('reload'));
      readRules(deps, approvals);
      return reloader === null ? null : reloader.reload(Caller.process('reload'), { dryRun: false });
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

/** Loaded only where somebody collects traces or metrics. */
async function openTelemetryOf({ telemetry }: RegistryConfig, log: ServiceLog): Promise<Telemetry | null> {
  if (telemetry === null) return null;
  const { openTelemetry } = await import('../server/telemetry/telemetry.ts');
  return openTelemetry(telemetry, 'spear-sms', (message) => log('warn', 'telemetry', { message }));
}

/** What is stored is served also when the directory cannot be taken over: nodes depend on it. */
async function firstLoad(reloader: DirectoryReloader, { strict }: RegistryConfig, log: ServiceLog): Promise<void> {
  try {
    const { servers, profiles } = await reloader.reload(Caller.process('start'), { dryRun: false });
    const refusal = servers.refusal ?? profiles.refusal;
    if (refusal !== null && strict) throw new DirectoryRefused(refusal);
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'not_stored') throw error;
    log('error', 'directory', { problem: error.message });
  }
}

/** Rules that cannot be read leave those that are there. */
function readRules({ readAgain, log }: RegistryDeps, approvals: ApprovalQueue): void {
  if (readAgain === undefined) return;
  try {
    const { approverRules } = readAgain();
    approvals.useRules(approverRules);
    log('info', 'approval_rules_reloaded', { rules: approverRules.length });
  } catch (error) {
    log('error', 'approval_rules_not_reloaded', { message: errorText(error), kept: true });
  }
}
