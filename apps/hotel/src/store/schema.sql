-- Days are text, YYYY-MM-DD, as services pass them on.
CREATE TABLE point (
    hotel_id text PRIMARY KEY,
    lat double precision NOT NULL,
    lon double precision NOT NULL
);
CREATE TABLE recommended (
    hotel_id text PRIMARY KEY,
    lat double precision NOT NULL,
    lon double precision NOT NULL,
    rate double precision NOT NULL,
    price double precision NOT NULL
);
CREATE TABLE hotel_user (
    name text PRIMARY KEY,
    password text NOT NULL
);
CREATE TABLE rate_plan (
    hotel_id text NOT NULL,
    code text NOT NULL,
    in_date text NOT NULL,
    out_date text NOT NULL,
    room_code text NOT NULL,
    room_description text NOT NULL,
    bookable_rate double precision NOT NULL,
    total_rate double precision NOT NULL,
    total_rate_inclusive double precision NOT NULL,
    PRIMARY KEY (hotel_id, code)
);
CREATE TABLE profile (
    hotel_id text PRIMARY KEY,
    name text NOT NULL,
    phone_number text NOT NULL,
    description text NOT NULL,
    street_number text NOT NULL,
    street_name text NOT NULL,
    city text NOT NULL,
    state text NOT NULL,
    country text NOT NULL,
    postal_code text NOT NULL,
    lat real NOT NULL,
    lon real NOT NULL
);
CREATE TABLE capacity (
    hotel_id text PRIMARY KEY,
    rooms bigint NOT NULL
);
CREATE TABLE reservation (
    hotel_id text NOT NULL,
    customer text NOT NULL,
    in_date text NOT NULL,
    out_date text NOT NULL,
    rooms integer NOT NULL
);
CREATE INDEX reservation_night ON reservation (hotel_id, in_date);
