import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterEach, expect, it } from 'vitest';
import { onStop, startTestSms, stopAll, temporaryDirectory } from '../registry/running-sms.ts';
import { makeKey, published, signed, startFakeIssuer } from '../server/identity/oidc/fake-issuer.ts';
import { usual } from '../server/identity/oidc/oidc-config.ts';
import { startRealIssuer } from '../server/identity/oidc/real-issuer.ts';
import { useBrowser } from '../support/browser.ts';
import { selfSigned } from '../support/certificates.ts';
import { ConsolePage } from './console-page.ts';

const open = useBrowser();
afterEach(stopAll);

async function signInThere(page: Page, name: string): Promise<string> {
  await page.getByRole('button', { name: 'Sign in with your identity provider' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview', exact: true }).waitFor();
  await page.getByRole('navigation').getByText(name).waitFor();
  await page.getByText('live', { exact: true }).waitFor();
  const kept = String(
    await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie, location.hash])'),
  );
  await page.getByRole('link', { name: 'Servers', exact: true }).click();
  await page.getByText('No servers yet').waitFor();
  return kept;
}

it('somebody signs in by a real issuer on loopback, and nothing of it is kept but in the page [console.login]', async (test) => {
  const issuer = await startRealIssuer();
  onStop(() => issuer.end());
  await issuer.become('alice');
  const sms = await startTestSms({ oidc: usual(issuer.issuer) });
  const { page, said } = await open(test, `${sms.sms.http}/console/`);
  const console = new ConsolePage({ page, said });
  await console.expectClean();
  expect(await signInThere(page, 'oidc:alice')).toBe('[{},{},"",""]');
  expect(await page.context().cookies(sms.sms.http)).not.toContainEqual(
    expect.objectContaining({ name: expect.stringContaining('spear') }),
  );
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  expect(console.complaints()).toEqual([]);
});

it('with TLS it is a cookie that no script can read, good for changes of this page, and gone when signed out [console.login]', async (test) => {
  const directory = temporaryDirectory();
  const tls = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') };
  const made = selfSigned();
  writeFileSync(tls.cert, made.cert);
  writeFileSync(tls.key, made.key, { mode: 0o600 });
  const issuer = await startFakeIssuer();
  const key = makeKey('one');
  issuer.keys = [published(key)];
  issuer.idToken = (nonce) =>
    signed(key, {
      iss: issuer.issuer,
      aud: 'spear',
      sub: 'bob',
      groups: ['spear-admins'],
      team: '*',
      nonce,
      exp: Math.floor(Date.now() / 1000) + 60,
    });
  const sms = await startTestSms({ tls, oidc: usual(issuer.issuer) });
  const { page: first } = await open(test, 'about:blank');
  const context = await first.context().browser()?.newContext({ ignoreHTTPSErrors: true });
  if (context === undefined) throw new Error('the browser is gone');
  onStop(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  await page.goto(`${sms.sms.http}/console/`);
  expect(await signInThere(page, 'oidc:bob')).toBe('[{},{},"",""]');
  const [cookie] = await context.cookies();
  expect(cookie).toMatchObject({ name: '__Host-spear-session', httpOnly: true, secure: true, sameSite: 'Strict' });
  // A reload stays in: the cookie is the browser's.
  await page.reload();
  await page.getByRole('navigation').getByText('oidc:bob').waitFor();
  await page.getByRole('link', { name: 'Servers', exact: true }).click();
  await page.getByRole('link', { name: 'Add a server' }).click();
  await page.getByLabel('Id').fill('files');
  await page.getByLabel('Command').fill('mcp-files');
  await page.getByText('The server is valid').waitFor();
  await page.getByRole('button', { name: 'Review changes' }).click();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: 'files', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  await page.reload();
  await page.getByLabel('Token').waitFor();
  expect(await context.cookies()).toEqual([]);
});

it('asks nobody who they are where the registry does not', async (test) => {
  const sms = await startTestSms({ auth: false });
  const { page } = await open(test, `${sms.sms.http}/console/`);
  await page.getByRole('heading', { level: 1, name: 'Overview', exact: true }).waitFor();
});
