import type { z } from 'zod';

/** What the description of an HTTP interface says of a route. */
export interface RouteDoc {
  readonly summary: string;
  /** Names of query parameters and headers, with what they are for. */
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: { readonly type: string; readonly schema?: z.ZodType };
  readonly answers: Readonly<
    Record<number, { readonly what: string; readonly type?: string; readonly schema?: z.ZodType }>
  >;
}
