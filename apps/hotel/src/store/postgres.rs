//! The store in PostgreSQL. DeathStarBench has it in MongoDB, which Debian does not have.

use std::collections::HashMap;
use std::error::Error as _;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use super::{Booking, Point, Recommended, Store, Taken, data};
use crate::dates::Night;
use crate::error::{Error, Kind};
use crate::messages::profile::{Address, Hotel};
use crate::messages::rate::{RatePlan, RoomType};
use crate::pool::{CONNECTIONS_MAX, Held, Pool};

/// What one operation may take, connecting included.
const LIMIT: Duration = Duration::from_secs(2);
/// What loading the data may take.
const LOAD_LIMIT: Duration = Duration::from_secs(30);
/// The server gives up a statement no later than we do.
const OPTIONS: &str = "-c statement_timeout=2000";
const SCHEMA: &str = include_str!("schema.sql");

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// PostgreSQL at a URL.
#[derive(Debug)]
pub struct Postgres {
    config: Config,
    pool: Pool<Connection>,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    /// Those that were used, by their text.
    prepared: HashMap<&'static str, Statement>,
}

impl Connection {
    async fn prepared(&mut self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.prepared.insert(sql, statement.clone());
        Ok(statement)
    }

    async fn rows(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepared(sql).await?;
        self.client.query(&statement, parameters).await
    }
}

impl Postgres {
    /// The store at `url`, as libpq takes it; reached once, so that a wrong URL shows at once.
    ///
    /// # Errors
    /// The URL is wrong, or no server answers there.
    pub async fn connect(url: &str) -> Result<Postgres, Error> {
        let config = url.parse::<Config>();
        let mut config = config.map_err(|error| Error::invalid(format!("--store: {error}")))?;
        config.options(OPTIONS).connect_timeout(LIMIT).application_name("hotel");
        let pool =
            Pool::new(CONNECTIONS_MAX, |connection: &Connection| !connection.client.is_closed());
        let store = Postgres { config, pool };
        within(LIMIT, store.take()).await?.give_back();
        Ok(store)
    }

    async fn take(&self) -> Result<Held<'_, Connection>, Error> {
        self.pool.take(open(&self.config)).await
    }

    async fn rows(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        within(LIMIT, async {
            let mut connection = self.take().await?;
            let rows = connection.rows(sql, parameters).await.map_err(of_postgres)?;
            connection.give_back();
            Ok(rows)
        })
        .await
    }

    /// Makes the tables and fills them.
    ///
    /// # Errors
    /// They are there already, or the server cannot be reached.
    pub async fn load(&self) -> Result<(), Error> {
        within(LOAD_LIMIT, async {
            let mut connection = self.take().await?;
            let transaction = connection.client.transaction().await.map_err(of_postgres)?;
            fill(&transaction).await.map_err(of_postgres)?;
            transaction.commit().await.map_err(of_postgres)
        })
        .await
    }
}

async fn open(config: &Config) -> Result<Connection, Error> {
    let (client, connection) = config.connect(NoTls).await.map_err(of_postgres)?;
    // It ends with the client, or with the server's connection, which the client notices.
    drop(tokio::spawn(connection));
    Ok(Connection { client, prepared: HashMap::new() })
}

/// What is asked of the store, within a time limit.
async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match timeout(limit, future).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::late("PostgreSQL", limit)),
    }
}

fn of_postgres(error: tokio_postgres::Error) -> Error {
    let kind = match error.as_db_error().map(|told| told.code()) {
        // The server is there, but has given up the statement, or ends.
        Some(code) if *code == SqlState::QUERY_CANCELED => Kind::Late,
        Some(code) if code.code().starts_with("57P") => Kind::Away,
        Some(_) => Kind::Internal,
        None => Kind::Away,
    };
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    Error { kind, what: format!("PostgreSQL: {error}{cause}") }
}

async fn fill(to: &tokio_postgres::Transaction<'_>) -> Result<(), tokio_postgres::Error> {
    to.batch_execute(SCHEMA).await?;
    let sql = to.prepare("INSERT INTO point VALUES ($1, $2, $3)").await?;
    for point in data::points() {
        to.execute(&sql, &[&point.hotel_id, &point.lat, &point.lon]).await?;
    }
    let sql = to.prepare("INSERT INTO recommended VALUES ($1, $2, $3, $4, $5)").await?;
    for Recommended { point, rate, price } in data::recommended() {
        to.execute(&sql, &[&point.hotel_id, &point.lat, &point.lon, &rate, &price]).await?;
    }
    let sql = to.prepare("INSERT INTO hotel_user VALUES ($1, $2)").await?;
    for (name, password) in data::users() {
        to.execute(&sql, &[&name, &password]).await?;
    }
    let sql = to.prepare("INSERT INTO capacity VALUES ($1, $2)").await?;
    for (hotel_id, rooms) in data::capacities() {
        to.execute(&sql, &[&hotel_id, &rooms]).await?;
    }
    let (hotel_id, customer, from, until) = data::FIRST;
    let sql = to.prepare("INSERT INTO reservation VALUES ($1, $2, $3, $4, $5)").await?;
    to.execute(&sql, &[&hotel_id, &customer, &from, &until, &1]).await?;
    fill_plans(to).await?;
    fill_profiles(to).await
}

async fn fill_plans(to: &tokio_postgres::Transaction<'_>) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO rate_plan VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let sql = to.prepare(sql).await?;
    for plan in data::rate_plans() {
        let room = plan.room_type.unwrap_or_default();
        let (bookable, total) = (room.bookable_rate, room.total_rate);
        let values: Parameters<'_> = &[
            &plan.hotel_id,
            &plan.code,
            &plan.in_date,
            &plan.out_date,
            &room.code,
            &room.room_description,
            &bookable,
            &total,
            &room.total_rate_inclusive,
        ];
        to.execute(&sql, values).await?;
    }
    Ok(())
}

async fn fill_profiles(to: &tokio_postgres::Transaction<'_>) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO profile VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    let sql = to.prepare(sql).await?;
    for hotel in data::profiles() {
        let at = hotel.address.unwrap_or_default();
        let values: Parameters<'_> = &[
            &hotel.id,
            &hotel.name,
            &hotel.phone_number,
            &hotel.description,
            &at.street_number,
            &at.street_name,
            &at.city,
            &at.state,
            &at.country,
            &at.postal_code,
            &at.lat,
            &at.lon,
        ];
        to.execute(&sql, values).await?;
    }
    Ok(())
}

fn point(row: &Row) -> Point {
    Point { hotel_id: row.get(0), lat: row.get(1), lon: row.get(2) }
}

fn rate_plan(row: &Row) -> RatePlan {
    let room = RoomType {
        code: row.get(4),
        room_description: row.get(5),
        bookable_rate: row.get(6),
        total_rate: row.get(7),
        total_rate_inclusive: row.get(8),
        currency: String::new(),
    };
    RatePlan {
        hotel_id: row.get(0),
        code: row.get(1),
        in_date: row.get(2),
        out_date: row.get(3),
        room_type: Some(room),
    }
}

fn profile(row: &Row) -> Hotel {
    let address = Address {
        street_number: row.get(4),
        street_name: row.get(5),
        city: row.get(6),
        state: row.get(7),
        country: row.get(8),
        postal_code: row.get(9),
        lat: row.get(10),
        lon: row.get(11),
    };
    Hotel {
        id: row.get(0),
        name: row.get(1),
        phone_number: row.get(2),
        description: row.get(3),
        address: Some(address),
    }
}

impl Store for Postgres {
    async fn points(&self) -> Result<Vec<Point>, Error> {
        let rows = self.rows("SELECT * FROM point", &[]).await?;
        Ok(rows.iter().map(point).collect())
    }

    async fn recommended(&self) -> Result<Vec<Recommended>, Error> {
        let rows = self.rows("SELECT * FROM recommended", &[]).await?;
        let one =
            |row: &Row| Recommended { point: point(row), rate: row.get(3), price: row.get(4) };
        Ok(rows.iter().map(one).collect())
    }

    async fn users(&self) -> Result<Vec<(String, String)>, Error> {
        let rows = self.rows("SELECT * FROM hotel_user", &[]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    async fn rate_plans(&self, hotel_ids: &[String]) -> Result<Vec<RatePlan>, Error> {
        let sql = "SELECT * FROM rate_plan WHERE hotel_id = ANY($1) ORDER BY hotel_id, code";
        let rows = self.rows(sql, &[&hotel_ids]).await?;
        Ok(rows.iter().map(rate_plan).collect())
    }

    async fn profiles(&self, hotel_ids: &[String]) -> Result<Vec<Hotel>, Error> {
        let sql = "SELECT * FROM profile WHERE hotel_id = ANY($1)";
        let rows = self.rows(sql, &[&hotel_ids]).await?;
        Ok(rows.iter().map(profile).collect())
    }

    async fn capacities(&self, hotel_ids: &[String]) -> Result<Vec<(String, i64)>, Error> {
        let sql = "SELECT * FROM capacity WHERE hotel_id = ANY($1)";
        let rows = self.rows(sql, &[&hotel_ids]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    async fn taken(&self, hotel_ids: &[String], nights: &[Night]) -> Result<Vec<Taken>, Error> {
        let sql = "SELECT hotel_id, in_date, sum(rooms) FROM reservation \
                   WHERE hotel_id = ANY($1) AND in_date = ANY($2) GROUP BY hotel_id, in_date";
        let days: Vec<&str> = nights.iter().map(|night| night.from.as_str()).collect();
        let rows = self.rows(sql, &[&hotel_ids, &days]).await?;
        let one = |row: &Row| Taken { hotel_id: row.get(0), from: row.get(1), rooms: row.get(2) };
        Ok(rows.iter().map(one).collect())
    }

    async fn book(&self, booking: &Booking) -> Result<bool, Error> {
        within(LIMIT, async {
            let mut connection = self.take().await?;
            let booked = book(&mut connection, booking).await.map_err(of_postgres)?;
            connection.give_back();
            Ok(booked)
        })
        .await
    }
}

/// The hotel's row is locked from the look at what is free to the end, so that bookings of one
/// hotel wait for each other.
async fn book(
    connection: &mut Connection,
    booking: &Booking,
) -> Result<bool, tokio_postgres::Error> {
    let lock = "SELECT rooms FROM capacity WHERE hotel_id = $1 FOR UPDATE";
    let look = "SELECT coalesce(max(taken), 0) FROM (SELECT sum(rooms) AS taken FROM reservation \
                WHERE hotel_id = $1 AND in_date = ANY($2) GROUP BY in_date) AS nights";
    let take = "INSERT INTO reservation \
                SELECT $1::text, $2::text, night.in_date, night.out_date, $5::integer \
                FROM unnest($3::text[], $4::text[]) AS night (in_date, out_date)";
    let (lock, look) = (connection.prepared(lock).await?, connection.prepared(look).await?);
    let take = connection.prepared(take).await?;
    let from: Vec<&str> = booking.nights.iter().map(|night| night.from.as_str()).collect();
    let to: Vec<&str> = booking.nights.iter().map(|night| night.to.as_str()).collect();
    let Booking { hotel_id, customer, rooms, .. } = booking;
    let transaction = connection.client.transaction().await?;
    let capacity = transaction.query_opt(&lock, &[hotel_id]).await?;
    let capacity = capacity.map_or(0, |row| row.get::<_, i64>(0));
    let taken: i64 = transaction.query_one(&look, &[hotel_id, &from]).await?.get(0);
    if taken + i64::from(*rooms) > capacity {
        transaction.rollback().await?;
        return Ok(false);
    }
    transaction.execute(&take, &[hotel_id, customer, &from, &to, rooms]).await?;
    transaction.commit().await?;
    Ok(true)
}
