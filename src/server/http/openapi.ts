import { z } from 'zod';
import type { JsonObject } from '../../base/json.ts';
import { version } from '../../base/version.ts';
import type { Need } from '../identity/identity.ts';

interface DescribedRoute {
  readonly method: string;
  readonly path: string;
  readonly needs: Need['needs'];
  readonly doc: RouteDoc;
}

/** OpenAPI 3.1 document of routes, generated from the schemas that validate their bodies. */
export function openApiDocument(
  about: { readonly title: string; readonly description: string },
  routes: readonly DescribedRoute[],
): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    paths[route.path] ??= {};
    (paths[route.path] as JsonObject)[route.method.toLowerCase()] = operationOf(route);
  }
  return {
    openapi: '3.1.0',
    info: { ...about, version },
    paths,
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  };
}

function operationOf({ path, needs, doc }: DescribedRoute): JsonObject {
  const { summary, query = {}, headers = {}, body, answers } = doc;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const text = { type: 'string' };
  const parameters = [
    ...names.map((name) => ({ name, in: 'path', required: true, schema: text })),
    ...Object.entries(query).map(([name, description]) => ({ name, in: 'query', description, schema: text })),
    ...Object.entries(headers).map(([name, description]) => ({ name, in: 'header', description, schema: text })),
  ];
  const responses = Object.entries(answers).map(([status, { what, type = 'application/json', schema }]) => [
    status,
    { description: what, content: { [type]: schema === undefined ? {} : { schema: jsonSchema(schema) } } },
  ]);
  return {
    summary,
    ...(needs === 'anybody' ? {} : { security: [{ token: [] }] }),
    parameters,
    ...(body === undefined
      ? {}
      : { requestBody: { content: { [body.type]: body.schema ? { schema: jsonSchema(body.schema) } : {} } } }),
    responses: Object.fromEntries(responses) as JsonObject,
  };
}

function jsonSchema(schema: z.ZodType): JsonObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema) as JsonObject;
  return rest;
}

/** OpenAPI description of a route. */
export interface RouteDoc {
  readonly summary: string;
  /** Descriptions of query parameters and headers, by name. */
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: { readonly type: string; readonly schema?: z.ZodType };
  readonly answers: Readonly<
    Record<number, { readonly what: string; readonly type?: string; readonly schema?: z.ZodType }>
  >;
}
