/**
 * Tests that have to pass with servers of either era, by their files. Each is run with servers of the old one, where it
 * stands, and with servers of the new one in `test/agent/mcp/client/new-era.e2e.test.ts` and `test/agent/mcp/new-era.e2e.test.ts`.
 */
export const poolTests: Readonly<Record<string, () => Promise<unknown>>> = {
  'pool/budgets': () => import('./agent/mcp/client/budgets.int.test.ts'),
  'pool/connection': () => import('./agent/mcp/client/connection.int.test.ts'),
  'pool/connection-scope': () => import('./agent/mcp/client/connection-scope.int.test.ts'),
  'pool/direct-http': () => import('./agent/mcp/client/direct-http.int.test.ts'),
  'pool/direct-stdio': () => import('./agent/mcp/client/direct-stdio.int.test.ts'),
  'pool/failed-servers': () => import('./agent/mcp/client/failed-servers.int.test.ts'),
  'pool/http-answers': () => import('./agent/mcp/client/http-answers.int.test.ts'),
  'pool/http-servers': () => import('./agent/mcp/client/http-servers.e2e.test.ts'),
  'pool/oauth/client-credentials': () => import('./agent/mcp/client/oauth/client-credentials.int.test.ts'),
  'pool/odd-answers': () => import('./agent/mcp/client/odd-answers.int.test.ts'),
  'pool/registry-change': () => import('./agent/mcp/client/registry-change.int.test.ts'),
  'pool/schema/odd-schemas': () => import('./agent/mcp/client/schema/odd-schemas.int.test.ts'),
  'pool/secrets': () => import('./agent/mcp/client/secrets.int.test.ts'),
  'pool/stdio-servers': () => import('./agent/mcp/client/stdio-servers.e2e.test.ts'),
  'pool/tools-cache': () => import('./agent/mcp/client/tools-cache.int.test.ts'),
  'pool/waits': () => import('./agent/mcp/client/waits.int.test.ts'),
};

export const dispatchTests: Readonly<Record<string, () => Promise<unknown>>> = {
  'mcp/approval/gate': () => import('./agent/approvals/gate.int.test.ts'),
  'mcp/chat': () => import('./agent/mcp/chat.int.test.ts'),
  'mcp/content-kinds': () => import('./agent/mcp/content-kinds.int.test.ts'),
  'mcp/degraded': () => import('./agent/mcp/degraded.int.test.ts'),
  'mcp/dispatch': () => import('./agent/mcp/dispatch.int.test.ts'),
  'mcp/hostcalls': () => import('./agent/mcp/hostcalls.int.test.ts'),
  'mcp/injected-names': () => import('./agent/mcp/injected-names.int.test.ts'),
  'mcp/injection': () => import('./agent/mcp/injection.e2e.test.ts'),
  'mcp/name-claims': () => import('./agent/mcp/name-claims.int.test.ts'),
  'mcp/once': () => import('./agent/mcp/once.int.test.ts'),
  'mcp/pins': () => import('./agent/mcp/pins.int.test.ts'),
  'mcp/prepared-arguments': () => import('./agent/mcp/prepared-arguments.int.test.ts'),
  'mcp/profiles': () => import('./agent/mcp/profiles.int.test.ts'),
  'mcp/progress': () => import('./agent/mcp/progress.int.test.ts'),
  'mcp/resource-tools': () => import('./agent/mcp/resource-tools.int.test.ts'),
  'mcp/run-guest': () => import('./agent/mcp/run-guest.int.test.ts'),
  'mcp/search/governed': () => import('./agent/mcp/search/governed.int.test.ts'),
  'mcp/submit': () => import('./agent/mcp/submit.int.test.ts'),
  'mcp/tool-choice': () => import('./agent/mcp/tool-choice.int.test.ts'),
  'mcp/turns': () => import('./agent/mcp/turns.int.test.ts'),
  'mcp/stops': () => import('./agent/mcp/stops.int.test.ts'),
};

const PURE = 'speaks to no server';
const COMMAND = 'drives a command with records of its own; what the commands wire is tested above in both eras';

/** Tests of the same folders that are run once, and why: by their files, or by the beginning of their paths. */
export const testedOnce: Readonly<Record<string, string>> = {
  'mcp/approval/definition-difference': PURE,
  'mcp/approval/grants': PURE,
  'mcp/approval/registry-desk': PURE,
  'mcp/approval/library': 'its server is from npm, of the era that it has',
  'mcp/audit-flood': 'about the trail: the calls stand in for any',
  'mcp/audit-many': COMMAND,
  'mcp/audit-refuse': 'about the trail: the calls stand in for any',
  'mcp/audit-revocation': COMMAND,
  'mcp/audit.e2e': COMMAND,
  'mcp/command-line': COMMAND,
  'mcp/direct-calls': 'ten thousand calls for the sake of the trail; the way of a call is in pool/direct-stdio',
  'mcp/elicitation/': 'has servers of both eras itself',
  'mcp/find-name': PURE,
  'mcp/images': 'its server is from npm, of the era that it has',
  'mcp/injection-memory': PURE,
  'mcp/inventory': PURE,
  'mcp/new-era': 'is the run in the new era',
  'mcp/offers': 'its server is built on the SDK that speaks both eras, and is asked; pool/offers has both',
  'mcp/processes': COMMAND,
  'mcp/schema-types': PURE,
  'mcp/search/ranking': PURE,
  'mcp/server-troubles': PURE,
  'mcp/tool-events': PURE,
  'mcp/tool-names': PURE,
  'mcp/toolbox': 'its servers are from npm, of the era that they have',
  'mcp/two-hundred': 'what crosses the port and the trail under load; the places of a server are in pool/budgets',
  'mcp/wire': COMMAND,
  'policy/': PURE,
  'pool/call-queue': PURE,
  'pool/deadlines': PURE,
  'pool/egress': 'about addresses and sockets, below any protocol',
  'pool/elicitation/': PURE,
  'pool/eras': 'has both eras itself',
  'pool/errors': PURE,
  'pool/header-parameters': PURE,
  'pool/new-era': 'is the run in the new era',
  'pool/npm-servers': 'its servers are from npm, of the era that they have',
  'pool/offers': 'has both eras itself',
  'pool/oauth/hostile-servers': 'about authorization servers, which know no eras',
  'pool/oauth/login':
    'about authorization servers, which know no eras; calls with their tokens are in client-credentials',
  'pool/oauth/mix-up': 'about authorization servers, which know no eras',
  'pool/pool-options': PURE,
  'pool/process/': 'about processes, below any protocol',
  'pool/progress': 'has both eras itself',
  'pool/schema/arguments': PURE,
  'pool/schema/normalise': PURE,
  'pool/schema/schemas': PURE,
  'pool/tool-result': PURE,
  'pool/transport/': PURE,
};

/** What tests are about that servers of the new era have not, or that does not differ, and why it is tested once. */
export const onlyLegacy = {
  answersByChoice: 'whether a stream has event ids, or an answer is JSON, is a choice of the SDK of the old era',
  cancellationOverHttp: 'over HTTP a server of the new era is told by the end of the stream, which is tested instead',
  listsOfTheLibrary: 'in the new era tools are listed beside the library too, which takes the first id',
  oldTransport: 'HTTP+SSE is older than the new era: a record with it is always greeted the old way',
  processes: 'how a process is started, what it sees and how it is ended is below any protocol',
  publishedServers: 'servers from npm are of the era they have, and are found out by pool/npm-servers',
  requestsOfServers: 'a server of the new era sends no requests of its own, so it gets no answer to one',
  sessions: 'the new era has no sessions: none is named, expires or is made anew',
  streamOfNotifications: 'the new era has no stream that is opened by GET; what replaces it is in pool/eras',
  versions: 'no version is agreed on by a handshake; versions that both sides know are in pool/eras',
} as const satisfies Readonly<Record<string, string>>;

export type LegacyTrait = keyof typeof onlyLegacy;
