/** The cookie of a session. Its prefix has browsers take it from this host by TLS only, and send it nowhere else. */
export const SESSION_COOKIE = '__Host-spear-session';
/** No form, image or link can send it, and a page of another origin must ask before. */
export const SESSION_HEADER = 'x-spear-session';

/** The session that a browser holds; null: none. */
export function sessionOfCookie(header: string | undefined): string | null {
  for (const part of (header ?? '').split(';')) {
    const [name, value = ''] = part.trim().split('=', 2);
    if (name === SESSION_COOKIE) return value;
  }
  return null;
}
