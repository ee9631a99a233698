import { z } from 'zod';

/** The optional fields of a config table that has one integer per limit, each in the range of its spec. */
export function limitFields<S extends Readonly<Record<string, { readonly min: number; readonly max: number }>>>(
  specs: S,
): { [Name in keyof S]: z.ZodOptional<z.ZodInt> } {
  const fields = Object.entries(specs).map(([name, { min, max }]) => [name, z.int().min(min).max(max).optional()]);
  return Object.fromEntries(fields);
}
