/** The code of an error of the system or of Node, such as `ENOENT`; also of an error from another realm. */
export function errorCode(error: unknown): string | undefined {
  const code: unknown = (error as { readonly code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** What an error says of itself; anything can be thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
