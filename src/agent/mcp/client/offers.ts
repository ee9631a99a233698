import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import type { CallKind } from '../../../runtime/port/call-kind.ts';
import { McpArgumentsError, McpToolError } from './errors.ts';
import { listPages, noPages, type PagedList, shorterTtl } from './list-pages.ts';
import type { PoolLimits } from './pool-options.ts';
import type { ServerSession } from './session.ts';
import type { CheckedTool, ToolDescriptor } from './tool-list.ts';

/** What a server has besides tools. */
export type OfferKind = Exclude<CallKind, 'tool'>;

/** As the server listed them, without secrets; nobody has looked at what the entries say. */
export interface ResourceList {
  readonly resources: readonly JsonObject[];
  readonly templates: readonly JsonObject[];
  readonly ttlMs: number | null;
}

export interface PromptList {
  readonly prompts: readonly JsonObject[];
  readonly ttlMs: number | null;
}

const resourcePages: PagedList = { method: 'resources/list', field: 'resources', entries: 'resources' };
const promptPages: PagedList = { method: 'prompts/list', field: 'prompts', entries: 'prompts' };
const templatePages: PagedList = {
  method: 'resources/templates/list',
  field: 'resourceTemplates',
  entries: 'templates',
};

const METHOD_NOT_FOUND = -32601;

/** A server that declares none is not asked, and one may have resources and know no templates. */
export async function listResources(
  session: ServerSession,
  limits: PoolLimits,
  signal: AbortSignal,
): Promise<ResourceList> {
  if (!session.offers('resource')) return { resources: [], templates: [], ttlMs: null };
  const listed = await listPages(session, resourcePages, limits, signal);
  const templates = await listPages(session, templatePages, limits, signal).catch((error) => {
    if (error instanceof McpToolError && error.rpcCode === METHOD_NOT_FOUND) return noPages;
    throw error;
  });
  const ttlMs = shorterTtl(listed.ttlMs, templates.ttlMs);
  return { resources: objectsIn(listed.entries), templates: objectsIn(templates.entries), ttlMs };
}

export async function listPrompts(
  session: ServerSession,
  limits: PoolLimits,
  signal: AbortSignal,
): Promise<PromptList> {
  if (!session.offers('prompt')) return { prompts: [], ttlMs: null };
  const { entries, ttlMs } = await listPages(session, promptPages, limits, signal);
  return { prompts: objectsIn(entries), ttlMs };
}

const objectsIn = (entries: readonly JsonValue[]): JsonObject[] => entries.filter(isJsonObject);

/** What an approval is bound to: a server says nothing of what it offers but the name, which is in the call. */
export function describeOffer(name: string): ToolDescriptor {
  const inputSchema = { type: 'object' };
  return Object.freeze({ name, title: null, description: '', inputSchema, outputSchema: null, annotations: null });
}

/** @throws McpError where the server has no such thing at all, or the arguments are none for it */
export function checkOffer(
  session: Pick<ServerSession, 'serverId' | 'offers'>,
  kind: OfferKind,
  name: string,
  args: JsonObject,
): Omit<CheckedTool, 'input'> {
  const { serverId } = session;
  if (!session.offers(kind)) {
    const message = `server "${serverId}" declares no ${kind}s (its capabilities have no "${kind}s")`;
    throw new McpToolError(serverId, name, `${kind} "${name}": ${message}`);
  }
  checkOfferArguments(serverId, name, args);
  return { tool: describeOffer(name), output: null, headers: [] };
}

/** @throws McpArgumentsError */
export function checkOfferArguments(serverId: string, name: string, args: JsonObject): void {
  const odd = Object.keys(args).find((key) => typeof args[key] !== 'string');
  if (odd === undefined) return;
  const message = `prompt "${name}": argument ${JSON.stringify(odd)} must be a string`;
  throw new McpArgumentsError(serverId, name, message);
}

/** `more`: what goes on with one that the server wants again. `traceparent`: what it is a part of. */
export function offerRequest(
  kind: OfferKind,
  name: string,
  args: JsonObject,
  more: JsonObject | null,
  traceparent?: string | undefined,
): [method: string, params: JsonObject] {
  const meta = traceparent === undefined ? {} : { _meta: { traceparent } };
  if (kind === 'resource') return ['resources/read', { uri: name, ...more, ...meta }];
  return ['prompts/get', { name, arguments: args, ...more, ...meta }];
}
