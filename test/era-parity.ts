/**
 * Tests that have to pass with servers of either era, by their files. Each is run with servers of the old one, where it
 * stands, and with servers of the new one in `test/agent/mcp/client/new-era.e2e.test.ts` and `test/agent/mcp/new-era.e2e.test.ts`.
 */
export const poolTests: Readonly<Record<string, () => Promise<unknown>>> = {
  'agent/mcp/client/budgets': () => import('./agent/mcp/client/budgets.int.test.ts'),
  'agent/mcp/client/connection': () => import('./agent/mcp/client/connection.int.test.ts'),
  'agent/mcp/client/connection-scope': () => import('./agent/mcp/client/connection-scope.int.test.ts'),
  'agent/mcp/client/direct-http': () => import('./agent/mcp/client/direct-http.int.test.ts'),
  'agent/mcp/client/direct-stdio': () => import('./agent/mcp/client/direct-stdio.int.test.ts'),
  'agent/mcp/client/failed-servers': () => import('./agent/mcp/client/failed-servers.int.test.ts'),
  'agent/mcp/client/http-answers': () => import('./agent/mcp/client/http-answers.int.test.ts'),
  'agent/mcp/client/http-servers': () => import('./agent/mcp/client/http-servers.e2e.test.ts'),
  'agent/mcp/client/oauth/client-credentials': () => import('./agent/mcp/client/oauth/client-credentials.int.test.ts'),
  'agent/mcp/client/odd-answers': () => import('./agent/mcp/client/odd-answers.int.test.ts'),
  'agent/mcp/client/registry-change': () => import('./agent/mcp/client/registry-change.int.test.ts'),
  'agent/mcp/client/schema/odd-schemas': () => import('./agent/mcp/client/schema/odd-schemas.int.test.ts'),
  'agent/mcp/client/secrets': () => import('./agent/mcp/client/secrets.int.test.ts'),
  'agent/mcp/client/stdio-servers': () => import('./agent/mcp/client/stdio-servers.e2e.test.ts'),
  'agent/mcp/client/tools-cache': () => import('./agent/mcp/client/tools-cache.int.test.ts'),
  'agent/mcp/client/waits': () => import('./agent/mcp/client/waits.int.test.ts'),
};

export const dispatchTests: Readonly<Record<string, () => Promise<unknown>>> = {
  'agent/approvals/gate': () => import('./agent/approvals/gate.int.test.ts'),
  'agent/mcp/chat': () => import('./agent/mcp/chat.int.test.ts'),
  'agent/mcp/content-kinds': () => import('./agent/mcp/content-kinds.int.test.ts'),
  'agent/mcp/degraded': () => import('./agent/mcp/degraded.int.test.ts'),
  'agent/mcp/dispatch': () => import('./agent/mcp/dispatch.int.test.ts'),
  'agent/mcp/hostcalls': () => import('./agent/mcp/hostcalls.int.test.ts'),
  'agent/mcp/injected-names': () => import('./agent/mcp/injected-names.int.test.ts'),
  'agent/mcp/injection': () => import('./agent/mcp/injection.e2e.test.ts'),
  'agent/mcp/tool-names': () => import('./agent/mcp/tool-names.int.test.ts'),
  'agent/mcp/once': () => import('./agent/mcp/once.int.test.ts'),
  'agent/mcp/pins': () => import('./agent/mcp/pins.int.test.ts'),
  'agent/mcp/prepared-arguments': () => import('./agent/mcp/prepared-arguments.int.test.ts'),
  'agent/mcp/profiles': () => import('./agent/mcp/profiles.int.test.ts'),
  'agent/mcp/progress': () => import('./agent/mcp/progress.int.test.ts'),
  'agent/mcp/resource-tools': () => import('./agent/mcp/resource-tools.int.test.ts'),
  'agent/mcp/run-guest': () => import('./agent/mcp/run-guest.int.test.ts'),
  'agent/mcp/search/governed': () => import('./agent/mcp/search/governed.int.test.ts'),
  'agent/mcp/submit': () => import('./agent/mcp/submit.int.test.ts'),
  'agent/mcp/tool-choice': () => import('./agent/mcp/tool-choice.int.test.ts'),
  'agent/mcp/turns': () => import('./agent/mcp/turns.int.test.ts'),
  'agent/mcp/stops': () => import('./agent/mcp/stops.int.test.ts'),
};

const PURE = 'speaks to no server';
const SERVICE = 'about the approval service of a registry, which calls no server';
const COMMAND = 'drives a command with records of its own; what the commands wire is tested above in both eras';

/** Tests of the same folders that are run once, and why: by their files, or by the beginning of their paths. */
export const testedOnce: Readonly<Record<string, string>> = {
  'agent/approvals/presentation': PURE,
  'agent/approvals/approval-record': SERVICE,
  'agent/approvals/open-approvals': SERVICE,
  'agent/approvals/rules': SERVICE,
  'agent/approvals/grants': PURE,
  'agent/approvals/client': PURE,
  'agent/approvals/library': 'its server is from npm, of the era that it has',
  'agent/mcp/audit-flood': 'about the trail: the calls stand in for any',
  'agent/mcp/audit-many': COMMAND,
  'agent/mcp/audit-refuse': 'about the trail: the calls stand in for any',
  'agent/mcp/audit-revocation': COMMAND,
  'agent/mcp/audit.e2e': COMMAND,
  'agent/mcp/command-line': COMMAND,
  'agent/mcp/direct-calls':
    'ten thousand calls for the sake of the trail; the way of a call is in agent/mcp/client/direct-stdio',
  'agent/mcp/elicitation.e2e': 'has servers of both eras itself',
  'agent/mcp/elicitation.test': PURE,
  'agent/mcp/find-name': PURE,
  'agent/mcp/images': 'its server is from npm, of the era that it has',
  'agent/mcp/injection.test': PURE,
  'agent/mcp/new-era': 'is the run in the new era',
  'agent/mcp/offers':
    'its server is built on the SDK that speaks both eras, and is asked; agent/mcp/client/offers has both',
  'agent/mcp/processes': COMMAND,
  'agent/mcp/search/ranking': PURE,
  'agent/mcp/server-troubles': PURE,
  'agent/mcp/tool-events': PURE,
  'agent/mcp/tool-names.test': PURE,
  'agent/mcp/toolbox.test': PURE,
  'agent/mcp/toolbox-isolation': 'its servers are from npm, of the era that they have',
  'agent/mcp/toolbox.e2e': 'its servers are from npm, of the era that they have',
  'agent/mcp/two-hundred':
    'what crosses the port and the trail under load; the places of a server are in agent/mcp/client/budgets',
  'agent/mcp/wire': COMMAND,
  'agent/policy/': PURE,
  'agent/mcp/client/call-queue': PURE,
  'agent/mcp/client/call-time': PURE,
  'agent/mcp/client/elicitation/': PURE,
  'agent/mcp/client/eras': 'has both eras itself',
  'agent/mcp/client/errors': PURE,
  'agent/mcp/client/header-parameters': PURE,
  'agent/mcp/client/new-era': 'is the run in the new era',
  'agent/mcp/client/npm-servers': 'its servers are from npm, of the era that they have',
  'agent/mcp/client/offers': 'has both eras itself',
  'agent/mcp/client/oauth/hostile-servers': 'about authorization servers, which know no eras',
  'agent/mcp/client/oauth/login':
    'about authorization servers, which know no eras; calls with their tokens are in client-credentials',
  'agent/mcp/client/oauth/mix-up': 'about authorization servers, which know no eras',
  'agent/mcp/client/pool-options': PURE,
  'agent/mcp/client/process/': 'about processes, below any protocol',
  'agent/mcp/client/progress': 'has both eras itself',
  'agent/mcp/client/schema/arguments': PURE,
  'agent/mcp/client/schema/normalise': PURE,
  'agent/mcp/client/schema/schemas': PURE,
  'agent/mcp/client/tool-result': PURE,
  'agent/mcp/client/transport/': PURE,
};

/** What tests are about that servers of the new era have not, or that does not differ, and why it is tested once. */
export const onlyLegacy = {
  answersByChoice: 'whether a stream has event ids, or an answer is JSON, is a choice of the SDK of the old era',
  cancellationOverHttp: 'over HTTP a server of the new era is told by the end of the stream, which is tested instead',
  listsOfTheLibrary: 'in the new era tools are listed beside the library too, which takes the first id',
  oldTransport: 'HTTP+SSE is older than the new era: a record with it is always greeted the old way',
  processes: 'how a process is started, what it sees and how it is ended is below any protocol',
  publishedServers: 'servers from npm are of the era they have, and are found out by agent/mcp/client/npm-servers',
  requestsOfServers: 'a server of the new era sends no requests of its own, so it gets no answer to one',
  sessions: 'the new era has no sessions: none is named, expires or is made anew',
  streamOfNotifications:
    'the new era has no stream that is opened by GET; what replaces it is in agent/mcp/client/eras',
  versions: 'no version is agreed on by a handshake; versions that both sides know are in agent/mcp/client/eras',
} as const satisfies Readonly<Record<string, string>>;

export type LegacyTrait = keyof typeof onlyLegacy;
