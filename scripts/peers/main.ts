// Connects to published MCP servers, lists their tools and calls one of each: `npm run peers [name...]`.
import { cutText } from '../../src/base/text.ts';
import { httpServers } from './http-servers.ts';
import { forEachServer, type Outcome } from './list-servers.ts';
import { moreServers } from './more-servers.ts';
import { pypiServers } from './pypi-servers.ts';
import { type RealServer, transportOf } from './real-server.ts';
import { searchedServers } from './searched-servers.ts';
import { type TriedServer, tryServer } from './try-server.ts';

/** What is not begun by then is not begun. */
const TOTAL_MS = 30 * 60_000;
const MAX_NOTE_CHARS = 120;
const HEADINGS = ['package', 'version', 'from', 'transport', 'protocol', 'tools', 'SDK', 'missing', 'answered', 'note'];

const servers = [...searchedServers, ...moreServers, ...pypiServers, ...httpServers];

/** Servers by package or id, all where none is named. */
function chosenServers(names: readonly string[]): readonly RealServer[] {
  const unknown = names.find((name) => !servers.some(({ id, package: own }) => name === id || name === own));
  if (unknown !== undefined) {
    console.error(`peers: unknown server "${unknown}"; known servers: ${servers.map(({ id }) => id).join(', ')}`);
    process.exit(2);
  }
  return servers.filter(({ id, package: own }) => names.length === 0 || names.includes(id) || names.includes(own));
}

function cells(outcome: Outcome<TriedServer>): readonly string[] {
  const { package: name, version, from = 'npm' } = outcome.server;
  const who = [name, version, from, transportOf(outcome.server)];
  if ('problem' in outcome) return [...who, '–', '–', '–', '–', 'no', plain(`failed: ${outcome.problem}`)];
  const { protocolVersion, tools, bySdk, missing, answered, note } = outcome.found;
  const listed = [protocolVersion, `${tools}`, `${bySdk ?? '–'}`, missing.length === 0 ? '0' : missing.join(' ')];
  return [...who, ...listed, answered ? 'yes' : 'no', plain(note)];
}

/** On one line of a table. */
const plain = (text: string) => cutText(text.replaceAll(/[\s|]+/g, ' '), MAX_NOTE_CHARS);
const row = (texts: readonly string[]) => `| ${texts.join(' | ')} |`;

const chosen = chosenServers(process.argv.slice(2));
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => stop.abort(new Error(`ended by ${signal}`)));
const late = setTimeout(() => stop.abort(new Error(`not started within ${TOTAL_MS / 60_000} minutes`)), TOTAL_MS);
const outcomes = await forEachServer(chosen, stop.signal, async (server) => {
  console.error(`${server.package} ${server.version} …`);
  return tryServer(server, stop.signal);
});
clearTimeout(late);

console.log([row(HEADINGS), row(HEADINGS.map(() => '---')), ...outcomes.map((one) => row(cells(one)))].join('\n'));
const connected = outcomes.filter((one) => 'found' in one);
const answered = connected.filter(({ found }) => found.answered);
const lacking = connected.filter(({ found }) => found.missing.length > 0);
console.log(`\n${chosen.length} servers: ${connected.length} connected and listed, ${answered.length} answered a call`);
console.log(`${lacking.length} servers have a tool that the SDK client lists and the Spear pool does not`);
process.exitCode = connected.length < chosen.length || lacking.length > 0 ? 1 : 0;
