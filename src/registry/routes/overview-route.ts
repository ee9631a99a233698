import type { ApprovalQueue } from '../../agent/approvals/service.ts';
import { version } from '../../base/version.ts';
import { jsonReply } from '../../server/http/http-reply.ts';
import type { Caller } from '../../server/identity/caller.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { StoreReader } from '../../server/store/store.ts';
import type { OverviewJson, ServerErrorJson } from '../console-api.ts';
import { type ConsoleState, healthCounts, sharedAnswer, worstHealth } from '../console-state.ts';
import type { NodeReports } from '../node-reports.ts';
import type { Route } from './http-listener.ts';

export interface OverviewDeps {
  readonly store: StoreReader;
  readonly profiles: StoreReader<McpProfile>;
  readonly reports: NodeReports;
  readonly console: ConsoleState;
  readonly writeProblem: () => string | null;
  readonly approvals: ApprovalQueue;
}

const MAX_ERRORS = 50;

type Figures = Omit<OverviewJson, 'write_problem' | 'pending_approvals'>;

/** `GET /admin/api/overview`: how the registry and all that follow it are, in one answer. */
export function overviewRoute(deps: OverviewDeps): Route {
  const figures = sharedAnswer(
    () => deps.console.key(),
    () => figuresOf(deps),
  );
  return {
    method: 'GET',
    path: '/admin/api/overview',
    needs: 'view',
    async run({ caller }) {
      const overview: OverviewJson = {
        ...(await figures()),
        write_problem: deps.writeProblem(),
        pending_approvals: await waiting(deps.approvals, caller),
      };
      return jsonReply(200, overview);
    },
  };
}

/** The same for everybody. */
async function figuresOf({ store, profiles, reports, console }: OverviewDeps): Promise<Figures> {
  const [{ epoch, revision, records }, profileList] = await Promise.all([store.list(), profiles.list()]);
  const nodes = reports.nodes();
  const seen = reports.byServer();
  const health = { idle: 0, connected: 0, degraded: 0, down: 0, unused: 0 };
  for (const { server_id: id } of records) health[worstHealth(healthCounts(seen.get(id) ?? [])) ?? 'unused'] += 1;
  return {
    version,
    up_ms: Math.round(process.uptime() * 1_000),
    epoch,
    revision,
    servers: records.length,
    profiles: profileList.records.length,
    nodes: {
      machines: reports.count,
      processes: nodes.length,
      troubled: nodes.filter(({ registryState }) => registryState !== 'ready').length,
      behind: nodes.filter((node) => node.epoch !== epoch || node.snapshotRevision < revision).length,
    },
    health,
    errors: errorsOf(reports),
    history: console.history.json(),
  };
}

/** Of the namespaces that whoever asks may know of. */
async function waiting(queue: ApprovalQueue, caller: Caller): Promise<number> {
  const mayName = queue.scope(caller);
  const { records } = await queue.store.list();
  return records.filter(({ status, namespace }) => status === 'waiting' && mayName(namespace)).length;
}

/** What processes cannot reach now, and what they could not reach before; those that are down first. */
function errorsOf(reports: NodeReports): ServerErrorJson[] {
  const errors = reports
    .nodes()
    .flatMap(({ nodeId, ageMs, servers }) =>
      servers.flatMap(({ serverId, health, lastError }) =>
        lastError === null
          ? []
          : [{ server_id: serverId, node_id: nodeId, age_ms: Math.round(ageMs), health, text: lastError }],
      ),
    );
  const rank = ({ health }: ServerErrorJson) => (health === 'down' ? 0 : health === 'degraded' ? 1 : 2);
  return errors.sort((a, b) => rank(a) - rank(b) || a.age_ms - b.age_ms).slice(0, MAX_ERRORS);
}
