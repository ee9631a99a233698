import { number, section, text } from '../command-table.ts';

export const registryConnection = section('Registry connection', {
  sms: text(
    'ADDRESS',
    'HOST:PORT or URL of the HTTP side, or unix:PATH of the socket. Separate several addresses of one registry with commas; the next one is tried when one fails. A bare HOST:PORT uses TLS, except on loopback, which prints a warning because any local user can listen there',
    { fallback: "$SPEAR_SMS, else the socket of this user's registry on this machine" },
  ),
  'token-file': text('FILE', 'file with a token', {
    fallback:
      "$SPEAR_SMS_TOKEN, $SPEAR_SMS_TOKEN_FILE, else the token file of this user's registry, which is only sent through its socket or by TLS on this machine",
  }),
  token: text('TOKEN', 'the token itself; other users of this machine can see it'),
  ca: text('FILE', "CA certificates to trust instead of the system's, PEM"),
  'timeout-ms': number('MS', 'timeout of one request', { min: 1, max: 3_600_000, default: 30_000 }),
});
