import type { HttpAnswer, TestSms } from '../../registry/running-sms.ts';

export const tokensPath = '/admin/api/tokens';

export interface NewToken {
  readonly name: string;
  readonly roles: readonly string[];
  readonly namespace?: string;
  readonly read_journals?: boolean;
  readonly expires_at_ms?: number;
  readonly description?: string;
}

export function askForToken(sms: TestSms, token: NewToken, as?: string): Promise<HttpAnswer> {
  return sms.http('POST', tokensPath, { json: token, ...(as === undefined ? {} : { token: as }) });
}

/** The text of a new token. */
export async function createToken(sms: TestSms, token: NewToken, as?: string): Promise<string> {
  const { status, body, text } = await askForToken(sms, token, as);
  if (status !== 201) throw new Error(`${status} ${text}`);
  return String(body.token);
}
